// The backend that runs kernels on a GPU: compiled once for each runtime that the build has.
//
// A list's launches are captured into a graph once, when it is first run; every run replays it. So
// a list that is run again after single buffers were uploaded is a graph replay with new metadata.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "device/backend.h"
#include "device/gpu/gpu_namespace.h"
#include "device/gpu/gpu_platform.h"

namespace zerodiff::device {
inline namespace ZERODIFF_GPU_RUNTIME {

// "cuda" or "hip".
std::string_view gpu_backend_name();
// Empty without a GPU or a driver.
std::vector<GpuInfo> list_gpus();

class GpuBackend final : public Backend {
 public:
  // `index` counts list_gpus(). Throws Error: infrastructure if there is no such GPU.
  explicit GpuBackend(int index);
  ~GpuBackend() override;

  std::string_view name() const override;
  int wave_width() const override;
  DeviceTraits traits() const override;
  std::unique_ptr<ResidentLaunchList> allocate(const LaunchList& list) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ZERODIFF_GPU_RUNTIME
}  // namespace zerodiff::device
