// Stage slot_mapping: which physical slot each row's K, V and index K go to (numerics.md section
// 7).
#pragma once

#include <cstdint>
#include <vector>

#include "fixtures/layer_call.h"

namespace zerodiff::reference {

struct SlotMapping {
  // One entry a row of the batch (capacity). `kv` is rebased for block_contiguous storage; a
  // negative entry stores nothing. Padding and empty rows are negative.
  std::vector<std::int64_t> kv;
  std::vector<std::int64_t> index;  // never rebased; empty with skip_index_branch
  bool from_graph_buffer = false;   // kv was read from page16_slot_mapping
};

// Whether page16_slot_mapping decides where K and V go: graph batch, block_contiguous storage,
// and a buffer whose length is the batch's capacity.
bool uses_graph_buffer(const LayerCall& call);

// The mapping of the scheduled rows, rebased if the storage asks for it, whatever the buffer holds.
std::vector<std::int64_t> eager_kv_slots(const LayerCall& call);

// The mapping in force. Throws Error (kInput) if a graph buffer sends a scheduled row outside the K
// half of the pool's blocks or two rows to one slot.
SlotMapping map_slots(const LayerCall& call);

// The request of a scheduled row by query_start_loc (which must be present).
std::int64_t request_of_row(const LayerCall& call, std::int64_t row);

// block_table[r][pos / B] * B + pos % B for a scheduled row with a non-negative position, or -1.
// The attention metadata must be present.
std::int64_t slot_from_block_table(const LayerCall& call, std::int64_t row);

}  // namespace zerodiff::reference
