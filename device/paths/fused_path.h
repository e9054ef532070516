// The fused path: one kernel from the packed rows to q, index_q and the caches.
#pragma once

#include "device/paths/path_launches.h"
#include "fixtures/layer_call.h"

namespace zerodiff::device {

// `call` is a valid one (fixtures/layer_call_checks.h) and must outlive the result. A call without
// rows has no launches. Throws Error (input) for a call with 2^31 rows or more.
PathLaunches fused_path(const LayerCall& call, const PathOptions& options = {});

}  // namespace zerodiff::device
