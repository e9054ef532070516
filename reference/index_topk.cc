#include "reference/index_topk.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "reference/visible_blocks.h"

namespace zerodiff::reference {
namespace {

constexpr float kInitScore = 1e30F;
constexpr float kLocalScore = 1e29F;
constexpr float kNanScore = -1e30F;

// The scores that decide, of the visible blocks.
void ranking_scores(const LayerConfig& config, std::span<const float> scores,
                    std::vector<float>& out) {
  out.assign(scores.begin(), scores.end());
  for (float& score : out) score = std::isnan(score) ? kNanScore : score;
  const auto visible = static_cast<std::int64_t>(out.size());
  const auto init_end = out.begin() + std::min(config.init_blocks, visible);
  std::fill(out.begin(), init_end, kInitScore);
  const auto local_begin = out.begin() + std::max<std::int64_t>(visible - config.local_blocks, 0);
  std::fill(local_begin, out.end(), kLocalScore);
}

void select_best(const std::vector<float>& scores, std::vector<std::int32_t>& order,
                 std::span<std::int32_t> selected) {
  order.resize(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const std::size_t kept = std::min(selected.size(), order.size());
  const auto better = [&](std::int32_t a, std::int32_t b) {
    const float score_a = scores[static_cast<std::size_t>(a)];
    const float score_b = scores[static_cast<std::size_t>(b)];
    return score_a != score_b ? score_a > score_b : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    better);
  std::fill(selected.begin(), selected.end(), -1);
  std::copy_n(order.begin(), kept, selected.begin());
}

}  // namespace

Tensor index_topk(const LayerCall& call, const Tensor& index_score) {
  const LayerConfig& config = call.config;
  Tensor topk =
      Tensor::allocate(ElementType::int32, {config.num_kv_heads, config.num_tokens, config.topk});
  const auto scores = index_score.as<float>();
  const auto ids = topk.as<std::int32_t>();
  const auto blocks = static_cast<std::size_t>(index_score.dim(2));
  const auto width = static_cast<std::size_t>(config.topk);
  std::vector<float> ranked;
  std::vector<std::int32_t> order;
  for (std::size_t row = 0; row < ids.size() / width; ++row) {
    const auto token = static_cast<std::int64_t>(row) % config.num_tokens;
    const auto visible = static_cast<std::size_t>(visible_blocks(call, token));
    ranking_scores(config, scores.subspan(row * blocks, visible), ranked);
    select_best(ranked, order, ids.subspan(row * width, width));
  }
  return topk;
}

}  // namespace zerodiff::reference
