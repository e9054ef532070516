// Insertion, eager against graph-safe: both are run, and outputs and write sets compared.
#pragma once

#include "compare/report.h"
#include "device/backend.h"
#include "device/paths/path_launches.h"
#include "fixtures/layer_call.h"

namespace zerodiff::tools {

// Runs the call's scheduled rows as graph batches of the call's capacity, on one set of device
// buffers that is refilled for one live count after another (all rows, half, one, none, all again):
// slots of rows past the live count are -1, page16_slot_mapping is rebased as numerics.md section 7
// says. Each replay must leave the q, index_q and caches of an eager batch of exactly the live rows,
// on caches filled with a byte pattern, so that equal caches also mean equal write sets.
compare::GraphSafeReport graph_safe_insertion(const LayerCall& call, device::PathKind kind,
                                              device::Backend& backend);

}  // namespace zerodiff::tools
