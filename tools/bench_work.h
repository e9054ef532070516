// The work of a stage: bytes that it has to move and FMAs of its dot products, from shapes alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "device/launch_list.h"
#include "fixtures/layer_call.h"

namespace zerodiff::tools {

// Launches [first, last) that belong together.
struct StageRange {
  std::string stage;
  std::size_t first = 0;
  std::size_t last = 0;
};

// The list's launches by stage, in order: kernels of one stage that follow each other are one range.
std::vector<StageRange> stage_ranges(const device::LaunchList& list);

struct StageWork {
  std::int64_t bytes = 0;
  std::int64_t fmas = 0;
};

// Bytes that a stage reads and writes if it touches each of its elements once; K, V and index K of a
// cached token count once for each row that attends to it in sparse_attention, and once for each
// request in index_score. Of fused insertion: the packed row, one row of the RoPE table, q, index_q
// and what is stored to the caches. Slots, positions, weights and scales are left out there.
// `reference` holds the outputs of the call.
StageWork work_of(const std::string& stage, const LayerCall& call, const Outputs& reference);

}  // namespace zerodiff::tools
