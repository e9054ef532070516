#include "device/paths/attention_inputs.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "device/paths/attention_buffers.h"
#include "fixtures/error.h"
#include "fixtures/layer_call_checks.h"

namespace zerodiff::device {
namespace {

// The outputs that feed a stage, and the group that messages name.
struct StoredOutputs {
  const Outputs& outputs;
  const std::string& group;

  std::string dataset(std::string_view name) const { return group + "/" + std::string(name); }
};

void require(const StoredOutputs& stored, std::string_view name, AttentionStage stage) {
  for (const OutputField& field : kOutputFields) {
    if (field.name != name || (stored.outputs.*field.tensor).present()) continue;
    throw Error::input(stored.dataset(name), "input of " + std::string(name_of(stage)), "none",
                       "a tensor");
  }
}

void require_caches(const LayerCall& call, const StoredOutputs& stored) {
  constexpr AttentionStage kStage = AttentionStage::sparse_attention;
  require(stored, "q", kStage);
  if (call.config.kv_storage == KvStorage::separate) {
    require(stored, "k_cache", kStage);
    require(stored, "v_cache", kStage);
  } else {
    require(stored, "kv_cache", kStage);
  }
}

void check_score_columns(const LayerCall& call, const StoredOutputs& stored) {
  const std::int64_t columns = call.block_table.dim(1);
  const std::int64_t found = stored.outputs.index_score.dim(2);
  if (found == columns) return;
  throw Error::input(stored.dataset("index_score"), "blocks of a row", std::to_string(found),
                     std::to_string(columns) + ", the columns of /inputs/block_table");
}

void check_selection(const LayerCall& call, const StoredOutputs& stored) {
  const auto positions = call.positions.as<std::int64_t>();
  const auto blocks = stored.outputs.topk_index.as<std::int32_t>();
  const std::int64_t topk = call.config.topk;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::int64_t token = static_cast<std::int64_t>(i) / topk % call.config.num_tokens;
    const std::int64_t position = positions[static_cast<std::size_t>(token)];
    if (position < 0 || (blocks[i] >= -1 && blocks[i] <= position / kBlockSize)) continue;
    throw Error::input(stored.dataset("topk_index"), "row " + std::to_string(token),
                       "block " + std::to_string(blocks[i]),
                       "-1, or a block up to " + std::to_string(position / kBlockSize));
  }
}

// Whether a table entry is a page that K is read from.
bool is_k_page(const LayerCall& call, std::int64_t folded) {
  const bool separate = call.config.kv_storage == KvStorage::separate;
  const std::int64_t pages = (separate ? 1 : 2) * kPagesPerBlock;
  const std::int64_t page = folded / call.config.num_kv_heads;
  return folded >= 0 && page / pages < call.num_blocks() && page % pages < kPagesPerBlock;
}

void check_table_row(const LayerCall& call, const StoredOutputs& stored, std::int64_t row) {
  const std::int64_t width = call.config.topk * kPagesPerBlock;
  const std::int64_t length =
      stored.outputs.sparse_context_lens.as<std::int32_t>()[static_cast<std::size_t>(row)];
  const std::string where = "row " + std::to_string(row);
  if (length < 0 || length > width * kPageSize) {
    throw Error::input(stored.dataset("sparse_context_lens"), where, std::to_string(length),
                       "0 to " + std::to_string(width * kPageSize));
  }
  const auto table = stored.outputs.sparse_block_table.as<std::int32_t>();
  const std::int64_t pages = (length + kPageSize - 1) / kPageSize;
  for (std::int64_t i = 0; i < pages; ++i) {
    const std::int32_t folded = table[static_cast<std::size_t>(row * width + i)];
    if (is_k_page(call, folded)) continue;
    throw Error::input(stored.dataset("sparse_block_table"), where + " entry " + std::to_string(i),
                       std::to_string(folded), "a page of the pool's K with a kv head folded in");
  }
}

void check_table(const LayerCall& call, const StoredOutputs& stored) {
  const std::int64_t rows = call.config.num_tokens * call.config.num_kv_heads;
  for (std::int64_t row = 0; row < rows; ++row) check_table_row(call, stored, row);
}

void check_first_stage(const LayerCall& call, const StoredOutputs& stored, AttentionStage stage) {
  switch (stage) {
    case AttentionStage::index_score:
      require(stored, "index_q", stage);
      require(stored, "index_cache", stage);
      return;
    case AttentionStage::index_topk:
      require(stored, "index_score", stage);
      check_score_columns(call, stored);
      return;
    case AttentionStage::sparse_block_table:
      if (call.config.skip_index_branch) return;
      require(stored, "topk_index", stage);
      check_selection(call, stored);
      return;
    case AttentionStage::sparse_attention:
      require(stored, "sparse_block_table", stage);
      require(stored, "sparse_context_lens", stage);
      check_table(call, stored);
      return;
  }
}

}  // namespace

void check_attention_inputs(const LayerCall& call, const Outputs& inserted,
                            const AttentionOptions& options, const std::string& group) {
  check_outputs(call, inserted, group);
  const StoredOutputs stored{inserted, group};
  check_first_stage(call, stored, options.first_stage);
  if (runs(options, AttentionStage::sparse_attention)) require_caches(call, stored);
}

}  // namespace zerodiff::device
