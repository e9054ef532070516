// The backend that runs kernels on the CPU and checks what they do.
#pragma once

#include <memory>
#include <string_view>

#include "device/backend.h"
#include "device/host/host_launch.h"
#include "device/host/kernel_registry.h"

namespace zerodiff::device {
inline namespace host {

// `checked` in the options covers buffers, too: without it only collectives and guard bands are
// checked, and any other breach is undefined behaviour, as on a GPU.
//
// A run that finds a fault with several OS threads starts again from the uploaded content with one,
// so that the same fault is reported whatever the timing (unless an earlier run or a single
// buffer's upload has changed the buffers since upload(); or the fault does not come back, which
// the report then says).
class HostBackend final : public Backend {
 public:
  // `kernels` must outlive the backend.
  explicit HostBackend(const ExecutorOptions& options = {},
                       const KernelRegistry& kernels = host_kernels());
  ~HostBackend() override;

  std::string_view name() const override { return "host"; }
  int wave_width() const override;
  DeviceTraits traits() const override;
  std::unique_ptr<ResidentLaunchList> allocate(const LaunchList& list) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace host
}  // namespace zerodiff::device
