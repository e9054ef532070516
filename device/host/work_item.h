// Which work-item the calling OS thread is running at this moment.
//
// The scheduler (work_group.h) sets these before it lets a work-item go on; a work-group never
// changes its OS thread, so thread-local variables serve.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "device/grid.h"
#include "device/host/access_stamp.h"
#include "device/host/call_site.h"
#include "device/kernel_fault.h"

namespace zerodiff::device {
inline namespace host {

inline thread_local constinit Index3 threadIdx{};
inline thread_local constinit Index3 blockIdx{};
inline thread_local constinit Extent3 blockDim{.x = 0, .y = 0, .z = 0};
inline thread_local constinit Extent3 gridDim{.x = 0, .y = 0, .z = 0};

inline thread_local constinit Stamp item_stamp = 0;

class WorkGroup;
inline thread_local constinit WorkGroup* current_group = nullptr;

// Ends a work-item; the scheduler catches it on the work-item's fiber. Kernel and launch are filled
// in by the executor.
class WorkItemFault : public std::exception {
 public:
  explicit WorkItemFault(KernelFault fault) : fault_(std::move(fault)) {}
  const char* what() const noexcept override { return fault_.detail.c_str(); }
  const KernelFault& fault() const { return fault_; }

 private:
  KernelFault fault_;
};

// A fault of the running work-item; raise_fault throws it, which ends the launch.
KernelFault make_fault(FaultKind kind, CallSite site, std::string detail);
[[noreturn]] void raise_fault(FaultKind kind, CallSite site, std::string detail);

// "block (0,0,0), thread (5,0,0)", in the running launch's grid.
std::string name_of_item(Stamp stamp);

}  // namespace host
}  // namespace zerodiff::device
