// The whole layer, captured once and replayed with other batches, against eager runs of these.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/report.h"
#include "device/backend.h"
#include "device/paths/path_launches.h"
#include "fixtures/layer_call.h"

namespace zerodiff::tools {

struct GraphReplayOptions {
  int replays = 8;
  bool attention = true;  // the stages after insertion, too
  // Names of the list's buffers that the host leaves as they were at capture: what a host does that
  // bakes their values into the graph. For tests of the verdict.
  std::vector<std::string> never_refilled{};
};

// Makes the path's launches resident once, for a batch of the call's capacity, and runs them again
// and again on the same buffers: activations, positions, slots, block table, lengths, scales and
// the number of live rows are another batch's each time (every fourth time the call's own), sizes
// shrink and grow, the graph-safe slot buffer is refilled as numerics.md section 7 says. On a GPU
// the launches are a graph, captured with the first batch's metadata.
//
// Each replay must leave, byte for byte, what an eager run of its live rows leaves: live rows of all
// outputs and the whole pools; results of the stages after insertion must be untouched past the
// live rows. Every batch runs three times: on the caches that the replay before left, and on caches
// filled with a byte and with its inverse, so that equal pools also mean equal write sets.
compare::GraphSafeReport replay_whole_layer(const LayerCall& call, device::PathKind kind,
                                            device::Backend& backend,
                                            const GraphReplayOptions& options);

}  // namespace zerodiff::tools
