#include "tests/oracle/block_selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/oracle/elements.h"

namespace zerodiff::oracle {
namespace {

std::int64_t position_of(const LayerCall& call, std::int64_t token) {
  return element_at<std::int64_t>(call.positions, token);
}

// block_table[request of the token][block]
std::int64_t mapped_block(const LayerCall& call, std::int64_t token, std::int64_t block) {
  std::int64_t request = 0;
  while (token >= element_at<std::int32_t>(call.query_start_loc, request + 1)) ++request;
  const std::int64_t columns = call.block_table.dim(1);
  if (block < 0 || block >= columns) throw std::out_of_range("oracle: past the block table");
  return element_at<std::int32_t>(call.block_table, request * columns + block);
}

// Section 10 for one call.
class Scores {
 public:
  Scores(const LayerCall& call, const Tensor& index_q, const Tensor& index_cache)
      : call_(call), index_q_(index_q), index_cache_(index_cache) {}

  // score[token, head, block]
  float of_block(std::int64_t token, std::int64_t head, std::int64_t block) const {
    const std::int64_t position = position_of(call_, token);
    if (position < block * 128) return -std::numeric_limits<float>::infinity();
    const std::int64_t first_slot = mapped_block(call_, token, block) * 128;
    float best = std::numeric_limits<float>::quiet_NaN();
    for (std::int64_t j = block * 128; j < (block + 1) * 128 && j <= position; ++j) {
      const float score = dot(token, head, first_slot + j % 128);
      if (std::isnan(best) || score > best) best = score;
    }
    return best + 0.0F;
  }

 private:
  float dot(std::int64_t token, std::int64_t head, std::int64_t slot) const {
    const std::int64_t first = (token * call_.config.num_index_heads + head) * 128;
    float sum = 0;
    for (std::int64_t d = 0; d < 128; ++d) {
      sum = std::fma(index_q_.at(first + d), index_cache_.at(slot * 128 + d), sum);
    }
    return sum;
  }

  const LayerCall& call_;
  Values index_q_;
  Values index_cache_;
};

// The score that ranks a visible block in section 11.
float ranking_score(const LayerConfig& config, std::int64_t block, std::int64_t visible,
                    float score) {
  float ranked = std::isnan(score) ? -1e30F : score;
  if (block < config.init_blocks) ranked = 1e30F;
  if (block >= visible - config.local_blocks) ranked = 1e29F;
  return ranked;
}

// Takes the best block that is left, `count` times; the first of equal ones.
std::vector<std::int64_t> best_blocks(const std::vector<float>& scores, std::int64_t count) {
  std::vector<std::int64_t> chosen;
  std::vector<bool> taken(scores.size(), false);
  while (static_cast<std::int64_t>(chosen.size()) < count) {
    std::size_t best = scores.size();
    for (std::size_t block = 0; block < scores.size(); ++block) {
      if (taken[block]) continue;
      if (best == scores.size() || scores[block] > scores[best]) best = block;
    }
    taken[best] = true;
    chosen.push_back(static_cast<std::int64_t>(best));
  }
  return chosen;
}

// One (token, kv head) row of section 12.
struct TableRow {
  std::vector<std::int64_t> blocks;  // in table order
  std::int64_t length = 0;
};

TableRow table_row(const LayerCall& call, const Tensor& topk_index, std::int64_t token,
                   std::int64_t head) {
  TableRow row;
  const std::int64_t position = position_of(call, token);
  if (position < 0) return row;
  const std::int64_t own = position / 128;
  const std::int64_t topk = call.config.topk;
  const std::int64_t first = (head * call.config.num_tokens + token) * topk;
  bool own_selected = false;
  for (std::int64_t rank = 0; rank < topk; ++rank) {
    const std::int64_t block = element_at<std::int32_t>(topk_index, first + rank);
    if (block == own) own_selected = true;
    if (block >= 0 && block != own) row.blocks.push_back(block);
  }
  row.length = 128 * static_cast<std::int64_t>(row.blocks.size());
  if (own_selected) {
    row.blocks.push_back(own);
    row.length += position % 128 + 1;
  } else {
    row.length = std::min(row.length, position + 1);
  }
  return row;
}

}  // namespace

Tensor index_score(const LayerCall& call, const Tensor& index_q, const Tensor& index_cache) {
  const Scores scores(call, index_q, index_cache);
  const std::int64_t columns = call.block_table.dim(1);
  Tensor result = Tensor::allocate(ElementType::float32,
                                   {call.config.num_kv_heads, call.config.num_tokens, columns});
  std::size_t element = 0;
  for (std::int64_t head = 0; head < call.config.num_kv_heads; ++head) {
    for (std::int64_t token = 0; token < call.config.num_tokens; ++token) {
      for (std::int64_t block = 0; block < columns; ++block, ++element) {
        result.as<float>()[element] = scores.of_block(token, head, block);
      }
    }
  }
  return result;
}

Tensor index_topk(const LayerCall& call, const Tensor& index_score) {
  const LayerConfig& config = call.config;
  const std::int64_t columns = call.block_table.dim(1);
  Tensor result =
      Tensor::allocate(ElementType::int32, {config.num_kv_heads, config.num_tokens, config.topk});
  const auto selection = result.as<std::int32_t>();
  std::fill(selection.begin(), selection.end(), -1);
  for (std::int64_t row = 0; row < config.num_kv_heads * config.num_tokens; ++row) {
    const std::int64_t position = position_of(call, row % config.num_tokens);
    if (position < 0) continue;
    const std::int64_t visible = position / 128 + 1;
    std::vector<float> scores;
    for (std::int64_t block = 0; block < visible; ++block) {
      const float score = element_at<float>(index_score, row * columns + block);
      scores.push_back(ranking_score(config, block, visible, score));
    }
    auto place = static_cast<std::size_t>(row * config.topk);
    for (const std::int64_t block : best_blocks(scores, std::min(config.topk, visible))) {
      selection[place++] = static_cast<std::int32_t>(block);
    }
  }
  return result;
}

BlockTable sparse_block_table(const LayerCall& call, const Tensor& topk_index) {
  const LayerConfig& config = call.config;
  const std::int64_t rows = config.num_tokens * config.num_kv_heads;
  const std::int64_t width = config.topk * 8;
  const std::int64_t pages_a_block = config.kv_storage == KvStorage::separate ? 8 : 16;
  BlockTable result{Tensor::zeros(ElementType::int32, {rows, width}),
                    Tensor::zeros(ElementType::int32, {rows})};
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t token = r / config.num_kv_heads;
    const std::int64_t head = r % config.num_kv_heads;
    const TableRow row = table_row(call, topk_index, token, head);
    auto entry = static_cast<std::size_t>(r * width);
    for (const std::int64_t block : row.blocks) {
      for (std::int64_t j = 0; j < 8; ++j, ++entry) {
        const std::int64_t page = mapped_block(call, token, block) * pages_a_block + j;
        const std::int64_t id = page * config.num_kv_heads + head;
        if (id >= std::int64_t{1} << 31) throw std::out_of_range("oracle: an id of 2^31 or more");
        result.table.as<std::int32_t>()[entry] = static_cast<std::int32_t>(id);
      }
    }
    result.context_lens.as<std::int32_t>()[static_cast<std::size_t>(r)] =
        static_cast<std::int32_t>(row.length);
  }
  return result;
}

}  // namespace zerodiff::oracle
