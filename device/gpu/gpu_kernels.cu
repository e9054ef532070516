#include "device/gpu/gpu_kernels.h"

#include <array>
#include <utility>

#include "device/kernels/all_kernels.hip.h"
#include "device/kernels/attention_kernels.hip.h"

namespace zerodiff::device {
inline namespace gpu {

const void* gpu_kernel(std::string_view name) {
#define ZERODIFF_GPU_ENTRY(kernel) \
  std::pair<std::string_view, const void*>{#kernel, reinterpret_cast<const void*>(&kernel)},
  static const std::array kKernels{ZERODIFF_ATTENTION_KERNELS(ZERODIFF_GPU_ENTRY)
                                       ZERODIFF_INSERTION_KERNELS(ZERODIFF_GPU_ENTRY)};
#undef ZERODIFF_GPU_ENTRY
  for (const auto& [known, function] : kKernels) {
    if (known == name) return function;
  }
  return nullptr;
}

}  // namespace gpu
}  // namespace zerodiff::device
