#include "reference/slot_mapping.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "fixtures/error.h"
#include "reference/cache_layout.h"

namespace zerodiff::reference {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

bool stores(const LayerCall& call, std::int64_t row) {
  return row < call.config.num_tokens && call.positions.as<std::int64_t>()[at(row)] >= 0;
}

// A used graph buffer was filled by somebody else: it may hold anything.
void check_buffer_slots(const LayerCall& call, const std::vector<std::int64_t>& slots) {
  constexpr const char* kWhere = "/inputs/page16_slot_mapping";
  const std::int64_t end = 2 * call.num_slots();
  std::vector<std::int64_t> used;
  for (std::size_t row = 0; row < slots.size(); ++row) {
    const std::int64_t slot = slots[row];
    if (slot < 0) continue;
    if (slot >= end || slot % (2 * kBlockSize) >= kBlockSize) {
      throw Error::input(kWhere, "entry " + std::to_string(row), std::to_string(slot),
                         "a rebased slot below " + std::to_string(end) +
                             " in the K half of its block (slot % 256 < 128)");
    }
    used.push_back(slot);
  }
  std::sort(used.begin(), used.end());
  const auto twice = std::adjacent_find(used.begin(), used.end());
  if (twice != used.end()) {
    throw Error::input(kWhere, "scheduled rows", "slot " + std::to_string(*twice) + " twice",
                       "distinct slots");
  }
}

}  // namespace

bool uses_graph_buffer(const LayerCall& call) {
  return call.config.batch_mode == BatchMode::graph &&
         call.config.kv_storage == KvStorage::block_contiguous &&
         call.page16_slot_mapping.present() && call.page16_slot_mapping.size() == call.capacity();
}

std::vector<std::int64_t> eager_kv_slots(const LayerCall& call) {
  const auto mapped = call.slot_mapping.as<std::int64_t>();
  std::vector<std::int64_t> slots(at(call.config.num_tokens), -1);
  for (std::int64_t row = 0; row < call.config.num_tokens; ++row) {
    if (!stores(call, row)) continue;
    const std::int64_t slot = mapped[at(row)];
    slots[at(row)] =
        call.config.kv_storage == KvStorage::block_contiguous ? rebase_slot(slot) : slot;
  }
  return slots;
}

SlotMapping map_slots(const LayerCall& call) {
  SlotMapping mapping;
  mapping.from_graph_buffer = uses_graph_buffer(call);
  if (mapping.from_graph_buffer) {
    const auto buffer = call.page16_slot_mapping.as<std::int64_t>();
    mapping.kv.assign(at(call.config.num_tokens), -1);
    for (std::int64_t row = 0; row < call.config.num_tokens; ++row) {
      if (stores(call, row)) mapping.kv[at(row)] = buffer[at(row)];
    }
    check_buffer_slots(call, mapping.kv);
  } else {
    mapping.kv = eager_kv_slots(call);
  }
  mapping.kv.resize(at(call.capacity()), -1);

  if (call.config.skip_index_branch) return mapping;
  const auto index = call.index_slot_mapping.as<std::int64_t>();
  mapping.index.assign(at(call.capacity()), -1);
  for (std::int64_t row = 0; row < call.config.num_tokens; ++row) {
    if (stores(call, row)) mapping.index[at(row)] = index[at(row)];
  }
  return mapping;
}

std::int64_t request_of_row(const LayerCall& call, std::int64_t row) {
  const auto starts = call.query_start_loc.as<std::int32_t>();
  const auto after = std::upper_bound(starts.begin(), starts.end(), row);
  return after - starts.begin() - 1;
}

std::int64_t slot_from_block_table(const LayerCall& call, std::int64_t row) {
  assert(call.has_attention_metadata());
  const std::int64_t position = call.positions.as<std::int64_t>()[at(row)];
  const std::int64_t columns = call.block_table.dim(1);
  const std::int64_t column = position / kBlockSize;
  if (position < 0 || column >= columns) return -1;
  const std::int64_t request = request_of_row(call, row);
  const std::int64_t block = call.block_table.as<std::int32_t>()[at(request * columns + column)];
  if (block < 0) return -1;
  return block * kBlockSize + position % kBlockSize;
}

}  // namespace zerodiff::reference
