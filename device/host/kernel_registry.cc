#include "device/host/kernel_registry.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "device/kernels/all_kernels.hip.h"

namespace zerodiff::device {
inline namespace host {

const KernelRegistry& host_kernels() {
  static const KernelRegistry registry({
      ZERODIFF_HOST_KERNEL(fused_insert_bf16_auto_auto),
      ZERODIFF_HOST_KERNEL(fused_insert_bf16_auto_fp8),
      ZERODIFF_HOST_KERNEL(fused_insert_bf16_fp8_auto),
      ZERODIFF_HOST_KERNEL(fused_insert_bf16_fp8_fp8),
      ZERODIFF_HOST_KERNEL(fused_insert_fp16_auto_auto),
      ZERODIFF_HOST_KERNEL(fused_insert_fp16_auto_fp8),
      ZERODIFF_HOST_KERNEL(fused_insert_fp16_fp8_auto),
      ZERODIFF_HOST_KERNEL(fused_insert_fp16_fp8_fp8),
      ZERODIFF_HOST_KERNEL(index_cache_insert_auto),
      ZERODIFF_HOST_KERNEL(index_cache_insert_bf16_fp8),
      ZERODIFF_HOST_KERNEL(index_cache_insert_fp16_fp8),
      ZERODIFF_HOST_KERNEL(qk_norm_rope_bf16_auto),
      ZERODIFF_HOST_KERNEL(qk_norm_rope_bf16_fp8),
      ZERODIFF_HOST_KERNEL(qk_norm_rope_fp16_auto),
      ZERODIFF_HOST_KERNEL(qk_norm_rope_fp16_fp8),
      ZERODIFF_HOST_KERNEL(reshape_and_cache_auto),
      ZERODIFF_HOST_KERNEL(reshape_and_cache_bf16_fp8),
      ZERODIFF_HOST_KERNEL(reshape_and_cache_fp16_fp8),
      ZERODIFF_HOST_KERNEL(slot_mapping),
  });
  return registry;
}

KernelRegistry::KernelRegistry(std::vector<HostKernel> kernels) : kernels_(std::move(kernels)) {
  std::sort(kernels_.begin(), kernels_.end(),
            [](const HostKernel& a, const HostKernel& b) { return a.name < b.name; });
  assert(std::adjacent_find(kernels_.begin(), kernels_.end(),
                            [](const HostKernel& a, const HostKernel& b) {
                              return a.name == b.name;
                            }) == kernels_.end());
}

const HostKernel* KernelRegistry::find(std::string_view name) const {
  const auto kernel =
      std::lower_bound(kernels_.begin(), kernels_.end(), name,
                       [](const HostKernel& a, std::string_view b) { return a.name < b; });
  return kernel == kernels_.end() || kernel->name != name ? nullptr : &*kernel;
}

}  // namespace host
}  // namespace zerodiff::device
