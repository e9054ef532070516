// Fits a launch list's arguments to the parameters of host kernels.
#pragma once

#include <memory>
#include <vector>

#include "device/host/host_backend.h"
#include "device/host/host_buffer.h"
#include "device/host/host_launch.h"
#include "device/host/kernel_registry.h"
#include "device/launch_list.h"

namespace zerodiff::device {
inline namespace host {

// Throws Error (input) if launch `index` names an unknown kernel, exceeds its launch bounds or the
// LDS limit, or has arguments that do not fit its parameters: their number, a scalar of another
// type, a buffer whose elements the View cannot show, an input buffer for a writable View.
void check_binding(const LaunchList& list, std::size_t index, const KernelRegistry& kernels,
                   const ExecutorOptions& options);

// The kernel of a checked launch with its arguments, which point into `buffers` (in the list's
// order). `written` gets true for each buffer that the launch may write.
struct Binding {
  std::unique_ptr<BoundKernel> kernel;
  std::vector<bool> written;
};
Binding bind(const Launch& launch, const KernelRegistry& kernels,
             std::vector<std::unique_ptr<HostBuffer>>& buffers);

}  // namespace host
}  // namespace zerodiff::device
