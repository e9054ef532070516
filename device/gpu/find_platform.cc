// One runtime as gpu_platform.h describes it; compiled for each.
#include "device/gpu/gpu_backend.h"
#include "device/gpu/gpu_kernels.h"
#include "device/gpu/gpu_platform.h"
#include "device/gpu/gpu_runtime.h"

namespace zerodiff::device {
inline namespace ZERODIFF_GPU_RUNTIME {

GpuPlatform find_platform() {
  GpuPlatform platform{
      .name = kGpuBackendName, .code = compiled_architectures(), .gpus = list_gpus()};
  platform.open = [](int index) -> std::unique_ptr<Backend> {
    return std::make_unique<GpuBackend>(index);
  };
  if (platform.gpus.empty()) {
    int count = 0;
    const GpuStatus status = ZERODIFF_GPU_NAME(GetDeviceCount)(&count);
    platform.trouble = status == ZERODIFF_GPU_NAME(Success)
                           ? "there is none"
                           : ZERODIFF_GPU_NAME(GetErrorString)(status);
  }
  return platform;
}

}  // namespace ZERODIFF_GPU_RUNTIME
}  // namespace zerodiff::device
