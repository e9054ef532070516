// The unfused path: one kernel a stage, with the packed rows between them.
#pragma once

#include "device/paths/path_launches.h"
#include "fixtures/layer_call.h"

namespace zerodiff::device {

// qk_norm_rope works in place, on a copy of the call's rows: before every run of the list, buffer
// "packed" needs its content anew (ResidentLaunchList::upload).
//
// `call` is a valid one (fixtures/layer_call_checks.h) and must outlive the result. A call without
// rows has no launches. Throws Error (input) for a call with 2^31 rows or more.
PathLaunches unfused_path(const LayerCall& call, const PathOptions& options = {});

}  // namespace zerodiff::device
