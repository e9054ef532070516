#include "device/paths/attention_inputs.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "device/paths/attention_buffers.h"
#include "fixtures/error.h"
#include "fixtures/layer_call_checks.h"

namespace zerodiff::device {
namespace {

std::string dataset(std::string_view name) {
  return "/outputs/" + std::string(name);
}

void require(const Tensor& tensor, std::string_view name, AttentionStage stage) {
  if (tensor.present()) return;
  throw Error::input(dataset(name), "input of " + std::string(name_of(stage)), "none", "a tensor");
}

void require_caches(const LayerCall& call, const Outputs& inserted) {
  constexpr AttentionStage kStage = AttentionStage::sparse_attention;
  require(inserted.q, "q", kStage);
  if (call.config.kv_storage == KvStorage::separate) {
    require(inserted.k_cache, "k_cache", kStage);
    require(inserted.v_cache, "v_cache", kStage);
  } else {
    require(inserted.kv_cache, "kv_cache", kStage);
  }
}

void check_score_columns(const LayerCall& call, const Tensor& index_score) {
  const std::int64_t columns = call.block_table.dim(1);
  if (index_score.dim(2) == columns) return;
  throw Error::input(dataset("index_score"), "blocks of a row", std::to_string(index_score.dim(2)),
                     std::to_string(columns) + ", the columns of /inputs/block_table");
}

void check_selection(const LayerCall& call, const Tensor& topk_index) {
  const auto positions = call.positions.as<std::int64_t>();
  const auto blocks = topk_index.as<std::int32_t>();
  const std::int64_t topk = call.config.topk;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::int64_t token = static_cast<std::int64_t>(i) / topk % call.config.num_tokens;
    const std::int64_t position = positions[static_cast<std::size_t>(token)];
    if (position < 0 || (blocks[i] >= -1 && blocks[i] <= position / kBlockSize)) continue;
    throw Error::input(dataset("topk_index"), "row " + std::to_string(token),
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

void check_table_row(const LayerCall& call, const Outputs& inserted, std::int64_t row) {
  const std::int64_t width = call.config.topk * kPagesPerBlock;
  const std::int64_t length =
      inserted.sparse_context_lens.as<std::int32_t>()[static_cast<std::size_t>(row)];
  const std::string where = "row " + std::to_string(row);
  if (length < 0 || length > width * kPageSize) {
    throw Error::input(dataset("sparse_context_lens"), where, std::to_string(length),
                       "0 to " + std::to_string(width * kPageSize));
  }
  const auto table = inserted.sparse_block_table.as<std::int32_t>();
  const std::int64_t pages = (length + kPageSize - 1) / kPageSize;
  for (std::int64_t i = 0; i < pages; ++i) {
    const std::int32_t folded = table[static_cast<std::size_t>(row * width + i)];
    if (is_k_page(call, folded)) continue;
    throw Error::input(dataset("sparse_block_table"), where + " entry " + std::to_string(i),
                       std::to_string(folded), "a page of the pool's K with a kv head folded in");
  }
}

void check_table(const LayerCall& call, const Outputs& inserted) {
  const std::int64_t rows = call.config.num_tokens * call.config.num_kv_heads;
  for (std::int64_t row = 0; row < rows; ++row) check_table_row(call, inserted, row);
}

void check_first_stage(const LayerCall& call, const Outputs& inserted, AttentionStage stage) {
  switch (stage) {
    case AttentionStage::index_score:
      require(inserted.index_q, "index_q", stage);
      require(inserted.index_cache, "index_cache", stage);
      return;
    case AttentionStage::index_topk:
      require(inserted.index_score, "index_score", stage);
      check_score_columns(call, inserted.index_score);
      return;
    case AttentionStage::sparse_block_table:
      if (call.config.skip_index_branch) return;
      require(inserted.topk_index, "topk_index", stage);
      check_selection(call, inserted.topk_index);
      return;
    case AttentionStage::sparse_attention:
      require(inserted.sparse_block_table, "sparse_block_table", stage);
      require(inserted.sparse_context_lens, "sparse_context_lens", stage);
      check_table(call, inserted);
      return;
  }
}

}  // namespace

void check_attention_inputs(const LayerCall& call, const Outputs& inserted,
                            const AttentionOptions& options) {
  check_outputs(call, inserted, "/outputs");
  check_first_stage(call, inserted, options.first_stage);
  if (runs(options, AttentionStage::sparse_attention)) require_caches(call, inserted);
}

}  // namespace zerodiff::device
