#include <array>
#include <utility>

#include "device/gpu/gpu_kernels.h"
#include "device/kernels/kernel_list.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_GPU_RUNTIME {
namespace {

constexpr std::int64_t kPlainLdsBytes = 48 * 1024;  // more has to be asked for

dim3 dimensions(const Extent3& extent) {
  return {extent.x, extent.y, extent.z};
}

}  // namespace

std::string compiled_architectures() {
  return ZERODIFF_CUDA_ARCHITECTURES;
}

GpuFunction gpu_kernel(std::string_view name) {
#define ZERODIFF_GPU_ENTRY(kernel) \
  std::pair<std::string_view, const void*>{#kernel, reinterpret_cast<const void*>(&kernel)},
  static const std::array kKernels{ZERODIFF_KERNELS(ZERODIFF_GPU_ENTRY)};
#undef ZERODIFF_GPU_ENTRY
  for (const auto& [known, function] : kKernels) {
    if (known == name) return function;
  }
  return nullptr;
}

void allow_lds(GpuFunction function, std::int64_t bytes) {
  if (bytes <= kPlainLdsBytes) return;
  ZERODIFF_GPU_CALL(FuncSetAttribute, function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                    static_cast<int>(bytes));
}

void launch_gpu_kernel(GpuFunction function, const Launch& launch, void** values,
                       GpuStream stream) {
  ZERODIFF_GPU_CALL(LaunchKernel, function, dimensions(launch.grid), dimensions(launch.block),
                    values, static_cast<std::size_t>(launch.lds_bytes), stream);
}

}  // namespace ZERODIFF_GPU_RUNTIME
}  // namespace zerodiff::device
