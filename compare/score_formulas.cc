#include "compare/score_formulas.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "reference/number_formats.h"
#include "reference/slot_mapping.h"
#include "reference/visible_blocks.h"

namespace zerodiff::compare {
namespace {

using Dots = std::vector<double>;

double sum_of(const Dots& dots) {
  return std::accumulate(dots.begin(), dots.end(), 0.0);
}

double value_at(const Tensor& tensor, std::int64_t element) {
  const auto i = static_cast<std::size_t>(element);
  return reference::value_of(tensor.type(), is_fp8(tensor.type()) ? tensor.as<std::uint8_t>()[i]
                                                                  : tensor.as<std::uint16_t>()[i]);
}

double dot_of(const Tensor& a, std::int64_t a_row, const Tensor& b, std::int64_t b_row) {
  double dot = 0;
  for (std::int64_t d = 0; d < kHeadDim; ++d) {
    dot += value_at(a, a_row * kHeadDim + d) * value_at(b, b_row * kHeadDim + d);
  }
  return dot;
}

}  // namespace

const std::array<ScoreFormula, kScoreFormulas>& score_formulas() {
  static constexpr std::array<ScoreFormula, kScoreFormulas> formulas{{
      {"mean of a block's dots instead of their maximum",
       [](const Dots& dots) { return sum_of(dots) / static_cast<double>(dots.size()); }},
      {"sum of a block's dots instead of their maximum", sum_of},
      {"a block's first dot instead of the maximum", [](const Dots& dots) { return dots.front(); }},
      {"a block's last dot instead of the maximum", [](const Dots& dots) { return dots.back(); }},
      {"minimum of a block's dots instead of their maximum",
       [](const Dots& dots) { return *std::ranges::min_element(dots); }},
  }};
  return formulas;
}

Tensor scores_by(const LayerCall& call, const Tensor& index_q, const Tensor& index_cache,
                 const ScoreFormula& formula) {
  const LayerConfig& config = call.config;
  const std::int64_t blocks = call.block_table.dim(1);
  Tensor scores =
      Tensor::allocate(ElementType::float32, {config.num_kv_heads, config.num_tokens, blocks});
  std::ranges::fill(scores.as<float>(), -std::numeric_limits<float>::infinity());
  Dots dots;
  for (std::int64_t i = 0; i < scores.size(); ++i) {
    const std::int64_t block = i % blocks;
    const std::int64_t token = i / blocks % config.num_tokens;
    if (block >= reference::visible_blocks(call, token)) continue;
    const std::int64_t head = i / blocks / config.num_tokens;
    const std::int64_t first =
        reference::pool_block(call, reference::request_of_row(call, token), block) * kBlockSize;
    const std::int64_t live =
        std::min(kBlockSize, reference::position_of(call, token) + 1 - block * kBlockSize);
    dots.clear();
    for (std::int64_t j = 0; j < live; ++j) {
      dots.push_back(
          dot_of(index_q, token * config.num_index_heads + head, index_cache, first + j));
    }
    scores.as<float>()[static_cast<std::size_t>(i)] = static_cast<float>(formula.score(dots));
  }
  return scores;
}

}  // namespace zerodiff::compare
