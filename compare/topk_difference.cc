#include "compare/topk_difference.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "compare/coordinates.h"

namespace zerodiff::compare {
namespace {

constexpr std::size_t kFirstRows = 4;

using Row = std::span<const std::int32_t>;

bool holds(Row row, std::int64_t block) {
  return std::ranges::find(row, block) != row.end();
}

std::vector<std::int64_t> blocks_of_only(Row one, Row other) {
  std::vector<std::int64_t> blocks;
  for (const std::int32_t block : one) {
    if (block != -1 && !holds(other, block)) blocks.push_back(block);
  }
  return blocks;
}

// The scores of one row and what section 11 makes of them.
class RowScores {
 public:
  RowScores(const LayerCall& call, const Tensor& scores, std::int64_t row, std::int64_t position)
      : config_(call.config), visible_(position < 0 ? 0 : position / kBlockSize + 1) {
    if (!scores.present()) return;
    const auto columns = static_cast<std::size_t>(scores.dim(2));
    scores_ = scores.as<float>().subspan(static_cast<std::size_t>(row) * columns, columns);
    visible_ = std::min(visible_, scores.dim(2));
  }

  bool known() const { return !scores_.empty(); }
  std::int64_t visible() const { return visible_; }

  SelectedBlock describe(std::int64_t block) const {
    SelectedBlock described;
    described.block = block;
    if (block < 0 || block >= visible_) return described;
    if (known()) described.score = score(block);
    described.forced = is_local(block) ? "local" : block < config_.init_blocks ? "init" : "";
    return described;
  }

  // The score in force, of a visible block.
  double ranking(std::int64_t block) const {
    if (is_local(block)) return 1e29;
    if (block < config_.init_blocks) return 1e30;
    return std::isnan(score(block)) ? -1e30 : score(block);
  }

  bool better(std::int64_t a, std::int64_t b) const {
    return ranking(a) != ranking(b) ? ranking(a) > ranking(b) : a < b;
  }

 private:
  double score(std::int64_t block) const { return scores_[static_cast<std::size_t>(block)]; }
  bool is_local(std::int64_t block) const { return block >= visible_ - config_.local_blocks; }

  const LayerConfig& config_;
  std::int64_t visible_;
  std::span<const float> scores_;
};

// Where the expected row's selection ends.
void describe_boundary(const RowScores& scores, Row expected, TopkRowDifference& difference) {
  if (!scores.known()) return;
  std::optional<std::int64_t> worst;
  std::optional<std::int64_t> best;
  for (std::int64_t block = 0; block < scores.visible(); ++block) {
    if (holds(expected, block)) {
      if (!worst || scores.better(*worst, block)) worst = block;
    } else if (!best || scores.better(block, *best)) {
      best = block;
    }
  }
  if (worst) difference.worst_selected = scores.describe(*worst);
  if (best) difference.best_left_out = scores.describe(*best);
  if (!worst || !best) return;
  const double selected = scores.ranking(*worst);
  const double left_out = scores.ranking(*best);
  difference.gap = selected == left_out ? 0 : selected - left_out;  // of infinities, too
}

TopkRowDifference describe_row(const RowScores& scores, Row expected, Row got) {
  TopkRowDifference difference;
  for (const std::int64_t block : blocks_of_only(got, expected)) {
    difference.entered.push_back(scores.describe(block));
  }
  for (const std::int64_t block : blocks_of_only(expected, got)) {
    difference.left.push_back(scores.describe(block));
  }
  describe_boundary(scores, expected, difference);
  return difference;
}

bool same_blocks(Row expected, Row got) {
  return std::ranges::is_permutation(expected, got);
}

}  // namespace

TopkDifference topk_difference(const LayerCall& call, const Tensor& expected, const Tensor& got,
                               const Tensor& scores) {
  TopkDifference difference;
  const RowFacts facts = row_facts(call);
  const auto width = static_cast<std::size_t>(call.config.topk);
  const std::int64_t rows = call.config.num_kv_heads * call.config.num_tokens;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto first = static_cast<std::size_t>(row) * width;
    const Row wanted = expected.as<std::int32_t>().subspan(first, width);
    const Row found = got.as<std::int32_t>().subspan(first, width);
    if (std::ranges::equal(wanted, found)) continue;
    ++difference.rows;
    if (same_blocks(wanted, found)) ++difference.reordered_rows;
    if (difference.first.size() == kFirstRows) continue;
    const std::int64_t token = row % call.config.num_tokens;
    const auto t = static_cast<std::size_t>(token);
    TopkRowDifference described =
        describe_row(RowScores(call, scores, row, facts.position[t]), wanted, found);
    described.token = token;
    described.request = facts.request[t];
    described.position = facts.position[t];
    described.kv_head = row / call.config.num_tokens;
    difference.first.push_back(std::move(described));
  }
  return difference;
}

}  // namespace zerodiff::compare
