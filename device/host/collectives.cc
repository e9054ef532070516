#include "device/host/collectives.h"

#include <string>

#include "device/host/work_group.h"
#include "device/host/work_item.h"

namespace zerodiff::device {
inline namespace host {

void raise_invalid_lane(int lane, CallSite site) {
  raise_fault(FaultKind::invalid_lane, site,
              "shuffle from lane " + std::to_string(lane) + " of 32");
}

std::uint64_t exchange32(std::uint64_t bits, int source, CallSite site) {
  return current_group->exchange32(bits, source, site);
}

int lane_in_group32() {
  return current_group->lane_in_group32();
}

// NOLINTNEXTLINE(bugprone-reserved-identifier): HIP's and CUDA's name
void __syncthreads(CallSite site) {
  current_group->barrier(site);
}

int wave_size() {
  return current_group->wave_width();
}

SharedArray find_shared_array(const SharedDeclaration& declaration) {
  return current_group->shared_memory().find(declaration);
}

}  // namespace host
}  // namespace zerodiff::device
