// What an own path's results must not depend on: when it runs, and where in the batch a row stands.
#pragma once

#include "compare/report.h"
#include "device/backend.h"
#include "device/paths/path_launches.h"
#include "fixtures/layer_call.h"

namespace zerodiff::tools {

// Runs the path `runs` times in all on one set of buffers, which get their content anew each time:
// every output must have the bytes that the first run gave it.
compare::RepeatReport repeat_path(const LayerCall& call, device::PathKind kind,
                                  device::Backend& backend, const device::PathOptions& options,
                                  int runs);

// Takes the first, a middle and the last scheduled row with a position out of the batch. Each runs
// alone, and behind 17 empty rows, on the caches that the whole batch left (`whole` has its outputs):
// its rows of all outputs must have the bytes that they have in the batch, and the caches must stay
// as they are, since the row inserts again what is there.
compare::InvarianceReport rows_by_themselves(const LayerCall& call, const Outputs& whole,
                                             device::PathKind kind, device::Backend& backend,
                                             const device::PathOptions& options);

}  // namespace zerodiff::tools
