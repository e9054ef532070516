// What a call cannot show about slots, caches, block tables and the selection.
#include <algorithm>
#include <array>
#include <cstring>

#include "compare/not_exercised_rules.h"

namespace zerodiff::compare {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

// Blocks that the table gives each request, read row by row, only those that it can see.
bool table_is_identity(const LayerCall& call) {
  const auto table = call.block_table.as<std::int32_t>();
  const auto lengths = call.seq_lens.as<std::int32_t>();
  const std::int64_t columns = call.block_table.dim(1);
  bool equals_column = true;
  bool equals_count = true;
  std::int64_t count = 0;
  for (std::int64_t request = 0; request < call.block_table.dim(0); ++request) {
    const std::int64_t blocks = (lengths[at(request)] + kBlockSize - 1) / kBlockSize;
    for (std::int64_t column = 0; column < std::min(blocks, columns); ++column, ++count) {
      const std::int64_t block = table[at(request * columns + column)];
      equals_column = equals_column && block == column;
      equals_count = equals_count && block == count;
    }
  }
  return equals_column || equals_count;
}

Why identity_block_table(const Facts& facts) {
  return when(facts.call.has_attention_metadata() && table_is_identity(facts.call),
              "the block table names the blocks in their own order, so reading it wrongly or not "
              "at all cannot show");
}

// Each byte is that before it, and the first is zero.
bool all_zero(const Tensor& tensor) {
  const auto bytes = tensor.bytes();
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

Why caches_all_zero(const Facts& facts) {
  const LayerCall& call = facts.call;
  const bool zero = all_zero(call.k_cache) && all_zero(call.v_cache) && all_zero(call.kv_cache) &&
                    all_zero(call.index_cache);
  return when(zero,
              "all caches are zero before the call, so adding to a slot, and storing zeros "
              "elsewhere, cannot show");
}

Why no_untouched_slots(const Facts& facts) {
  return when(std::ssize(facts.slots) == facts.call.num_slots(),
              "every slot of the pool is written, so a stray store cannot show");
}

Why index_slots_equal_slots(const Facts& facts) {
  const LayerCall& call = facts.call;
  return when(!call.config.skip_index_branch && call.config.kv_storage == KvStorage::separate &&
                  identical(call.index_slot_mapping, call.slot_mapping),
              "index_slot_mapping equals slot_mapping, so one in the other's place cannot show");
}

Why no_graph_buffer(const Facts& facts) {
  const LayerCall& call = facts.call;
  const Tensor& buffer = call.page16_slot_mapping;
  constexpr const char* kSo = ", so a fault of the graph-safe slot mapping cannot show";
  if (!buffer.present()) return std::string("page16_slot_mapping is absent") + kSo;
  if (call.config.kv_storage == KvStorage::separate || buffer.size() != call.capacity() ||
      call.config.batch_mode == BatchMode::eager) {
    return std::string("page16_slot_mapping is not used by this call") + kSo;
  }
  return std::nullopt;
}

Why no_attention_metadata(const Facts& facts) {
  return when(!facts.call.has_attention_metadata(),
              "block_table, seq_lens or query_start_loc is absent, so only insertion runs");
}

Why index_branch_skipped(const Facts& facts) {
  return when(facts.config().skip_index_branch,
              "the call skips the index branch, so index_q, index K and the selection do not run");
}

Why topk_covers_context(const Facts& facts) {
  const bool covered =
      std::all_of(facts.positions.begin(), facts.positions.end(),
                  [&](std::int64_t p) { return p / kBlockSize + 1 <= facts.config().topk; });
  return when(covered && !facts.config().skip_index_branch,
              "every row sees at most topk (" + std::to_string(facts.config().topk) +
                  ") blocks, so all are selected whatever their scores");
}

Why no_init_blocks(const Facts& facts) {
  return when(facts.config().init_blocks == 0 && !facts.config().skip_index_branch,
              "init_blocks is 0, so forced initial blocks cannot show");
}

constexpr std::array kRules{
    Rule{"identity_block_table", identity_block_table},
    Rule{"caches_all_zero", caches_all_zero},
    Rule{"no_untouched_slots", no_untouched_slots},
    Rule{"index_slots_equal_slots", index_slots_equal_slots},
    Rule{"no_graph_buffer", no_graph_buffer},
    Rule{"no_attention_metadata", no_attention_metadata},
    Rule{"index_branch_skipped", index_branch_skipped},
    Rule{"topk_covers_context", topk_covers_context},
    Rule{"no_init_blocks", no_init_blocks},
};

}  // namespace

std::span<const Rule> pool_rules() {
  return kRules;
}

}  // namespace zerodiff::compare
