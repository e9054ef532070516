// Kernels of the host backend by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/host/host_kernel.h"

namespace zerodiff::device {
inline namespace host {

class KernelRegistry {
 public:
  // Names must differ.
  explicit KernelRegistry(std::vector<HostKernel> kernels);

  // Null if there is none.
  const HostKernel* find(std::string_view name) const;
  const std::vector<HostKernel>& kernels() const { return kernels_; }

 private:
  std::vector<HostKernel> kernels_;
};

// Every kernel of device/kernels/.
const KernelRegistry& host_kernels();

}  // namespace host
}  // namespace zerodiff::device
