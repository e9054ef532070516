#include "tests/oracle/slot_mapping.h"

namespace zerodiff::oracle {
namespace {

std::int64_t entry(const Tensor& mapping, std::int64_t row) {
  return mapping.as<std::int64_t>()[static_cast<std::size_t>(row)];
}

bool reads_graph_buffer(const LayerCall& call) {
  return call.config.batch_mode == BatchMode::graph &&
         call.config.kv_storage == KvStorage::block_contiguous &&
         call.page16_slot_mapping.present() && call.page16_slot_mapping.dim(0) == call.qkv.dim(0);
}

}  // namespace

RowSlots slots_of_row(const LayerCall& call, std::int64_t row) {
  RowSlots slots;
  const bool padding = row >= call.config.num_tokens;
  if (padding || entry(call.positions, row) < 0) return slots;
  if (!call.config.skip_index_branch) slots.index = entry(call.index_slot_mapping, row);

  if (reads_graph_buffer(call)) {
    slots.kv = entry(call.page16_slot_mapping, row);
    // Undoes slot' = 2 * (slot / 128) * 128 + slot % 128.
    if (slots.kv >= 0) slots.scale = slots.kv / 256 * 128 + slots.kv % 128;
    return slots;
  }
  slots.kv = entry(call.slot_mapping, row);
  slots.scale = slots.kv;
  if (call.config.kv_storage == KvStorage::block_contiguous && slots.kv >= 0) {
    slots.kv = 2 * (slots.kv / 128) * 128 + slots.kv % 128;
  }
  return slots;
}

}  // namespace zerodiff::oracle
