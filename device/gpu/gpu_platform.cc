#include "device/gpu/gpu_platform.h"

namespace zerodiff::device {

#ifdef ZERODIFF_CUDA_BACKEND
inline namespace cuda_runtime {
GpuPlatform find_platform();
}
#endif
#ifdef ZERODIFF_HIP_BACKEND
inline namespace hip_runtime {
GpuPlatform find_platform();
}
#endif

std::vector<GpuPlatform> gpu_platforms() {
  std::vector<GpuPlatform> platforms;
#ifdef ZERODIFF_CUDA_BACKEND
  platforms.push_back(cuda_runtime::find_platform());
#endif
#ifdef ZERODIFF_HIP_BACKEND
  platforms.push_back(hip_runtime::find_platform());
#endif
  return platforms;
}

}  // namespace zerodiff::device
