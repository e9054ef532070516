#include "device/host/collectives.h"

#include <string>

#include "device/host/shared_memory.h"
#include "device/host/work_group.h"

namespace zerodiff::device {
inline namespace host {

void raise_invalid_lane(int lane, CallSite site) {
  raise_fault(FaultKind::invalid_lane, site,
              "shuffle from lane " + std::to_string(lane) + " of 32");
}

int wave_size() {
  return current_group->wave_width();
}

SharedArray find_shared_array(const SharedDeclaration& declaration) {
  return current_group->shared_memory().find(declaration);
}

}  // namespace host
}  // namespace zerodiff::device
