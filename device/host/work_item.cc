#include "device/host/work_item.h"

namespace zerodiff::device {
inline namespace host {

KernelFault make_fault(FaultKind kind, CallSite site, std::string detail) {
  KernelFault fault;
  fault.kind = kind;
  fault.block = blockIdx;
  fault.thread = threadIdx;
  fault.file = site.file;
  fault.line = site.line;
  fault.detail = std::move(detail);
  return fault;
}

void raise_fault(FaultKind kind, CallSite site, std::string detail) {
  throw WorkItemFault(make_fault(kind, site, std::move(detail)));
}

std::string name_of_item(Stamp stamp) {
  return "block " + to_string(unflatten(block_of(stamp), gridDim)) + ", thread " +
         to_string(unflatten(thread_of(stamp), blockDim));
}

}  // namespace host
}  // namespace zerodiff::device
