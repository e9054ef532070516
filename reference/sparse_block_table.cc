#include "reference/sparse_block_table.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "fixtures/error.h"
#include "reference/slot_mapping.h"
#include "reference/visible_blocks.h"

namespace zerodiff::reference {
namespace {

// The row's selected blocks in table order: rank order, the token's own block last.
std::vector<std::int64_t> table_order(std::span<const std::int32_t> selected,
                                      std::int64_t own_block) {
  std::vector<std::int64_t> blocks;
  for (const std::int32_t id : selected) {
    if (id >= 0 && id != own_block) blocks.push_back(id);
  }
  if (std::find(selected.begin(), selected.end(), own_block) != selected.end()) {
    blocks.push_back(own_block);
  }
  return blocks;
}

std::int32_t live_tokens(const std::vector<std::int64_t>& blocks, std::int64_t position) {
  const auto count = static_cast<std::int64_t>(blocks.size());
  const bool own_last = !blocks.empty() && blocks.back() == position / kBlockSize;
  const std::int64_t length = own_last ? kBlockSize * (count - 1) + position % kBlockSize + 1
                                       : std::min(kBlockSize * count, position + 1);
  return static_cast<std::int32_t>(length);
}

std::int32_t folded_entry(std::int64_t page, std::int64_t head, const LayerConfig& config) {
  const std::int64_t entry = page * config.num_kv_heads + head;
  if (entry > std::numeric_limits<std::int32_t>::max()) {
    throw Error::input("sparse_block_table", "entry", std::to_string(entry),
                       "page * num_kv_heads + head below 2^31");
  }
  return static_cast<std::int32_t>(entry);
}

void fill_row(const LayerCall& call, std::int64_t request, std::int64_t head,
              const std::vector<std::int64_t>& blocks, std::span<std::int32_t> row) {
  const std::int64_t pages_apart =
      call.config.kv_storage == KvStorage::separate ? kPagesPerBlock : 2 * kPagesPerBlock;
  std::size_t next = 0;
  for (const std::int64_t block : blocks) {
    const std::int64_t first_page = pool_block(call, request, block) * pages_apart;
    for (std::int64_t j = 0; j < kPagesPerBlock; ++j) {
      row[next++] = folded_entry(first_page + j, head, call.config);
    }
  }
}

}  // namespace

SparseBlockTable sparse_block_table(const LayerCall& call, const Tensor& topk_index) {
  const LayerConfig& config = call.config;
  const std::int64_t rows = config.num_tokens * config.num_kv_heads;
  SparseBlockTable result;
  result.table = Tensor::zeros(ElementType::int32, {rows, config.topk * kPagesPerBlock});
  result.context_lens = Tensor::zeros(ElementType::int32, {rows});
  const auto ids = topk_index.as<std::int32_t>();
  const auto topk = static_cast<std::size_t>(config.topk);
  const auto width = topk * static_cast<std::size_t>(kPagesPerBlock);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t token = row / config.num_kv_heads;
    const std::int64_t head = row % config.num_kv_heads;
    const std::int64_t position = position_of(call, token);
    if (position < 0) continue;
    const auto selection =
        ids.subspan(static_cast<std::size_t>(head * config.num_tokens + token) * topk, topk);
    const auto blocks = table_order(selection, position / kBlockSize);
    fill_row(call, request_of_row(call, token), head, blocks,
             result.table.as<std::int32_t>().subspan(static_cast<std::size_t>(row) * width, width));
    result.context_lens.as<std::int32_t>()[static_cast<std::size_t>(row)] =
        live_tokens(blocks, position);
  }
  return result;
}

}  // namespace zerodiff::reference
