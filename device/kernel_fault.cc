#include "device/kernel_fault.h"

namespace zerodiff::device {

std::string_view name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::partial_collective:
      return "partial_collective";
    case FaultKind::divergent_barrier:
      return "divergent_barrier";
    case FaultKind::invalid_lane:
      return "invalid_lane";
    case FaultKind::out_of_bounds:
      return "out_of_bounds";
    case FaultKind::lds_out_of_bounds:
      return "lds_out_of_bounds";
    case FaultKind::misaligned_access:
      return "misaligned_access";
    case FaultKind::unwritten_read:
      return "unwritten_read";
    case FaultKind::lds_unwritten_read:
      return "lds_unwritten_read";
    case FaultKind::write_conflict:
      return "write_conflict";
    case FaultKind::buffer_race:
      return "buffer_race";
    case FaultKind::lds_race:
      return "lds_race";
    case FaultKind::lds_capacity:
      return "lds_capacity";
    case FaultKind::kernel_exception:
      return "kernel_exception";
    case FaultKind::guard_band:
      return "guard_band";
  }
  return "unknown";
}

std::string to_string(const KernelFault& fault) {
  std::string text = "kernel " + fault.kernel + ", launch " + std::to_string(fault.launch);
  if (fault.kind != FaultKind::guard_band) {
    text += ", block " + to_string(fault.block) + ", thread " + to_string(fault.thread);
  }
  if (!fault.file.empty()) text += ", " + fault.file + ":" + std::to_string(fault.line);
  text += ": ";
  text += name_of(fault.kind);
  return text + ": " + fault.detail;
}

}  // namespace zerodiff::device
