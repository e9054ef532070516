#include "device/host/kernel_registry.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "device/kernels/kernel_list.hip.h"

namespace zerodiff::device {
inline namespace host {

#define ZERODIFF_REGISTRY_ENTRY(name) ZERODIFF_HOST_KERNEL(name),

const KernelRegistry& host_kernels() {
  static const KernelRegistry registry({ZERODIFF_KERNELS(ZERODIFF_REGISTRY_ENTRY)});
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
