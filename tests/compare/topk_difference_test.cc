// Which blocks entered and left a selection, and how much decided it.
#include "compare/topk_difference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compare/output_comparison.h"
#include "reference/index_score.h"
#include "reference/index_topk.h"
#include "reference/layer.h"
#include "tests/compare/small_call.h"

namespace zerodiff::compare {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Two kv heads, topk 2, one forced local block; the row of `token` sees four blocks, whose scores
// are chosen.
class TopkDifferenceTest : public testing::Test {
 protected:
  void SetUp() override {
    GeneratorOptions options = small_options();
    options.min_context = options.max_context = 3 * kBlockSize;
    options.empty_row_share = 0;
    call_ = generate_call(options);
    scores_ = Tensor::allocate(ElementType::float32,
                               {2, call_.config.num_tokens, call_.block_table.dim(1)});
    std::ranges::fill(scores_.as<float>(), 0.0F);
    select({1.5F, 2.0F, 1.25F, -3.0F});
  }

  void select(const std::vector<float>& row_scores) {
    std::ranges::copy(row_scores, scores_.as<float>().begin() + row() * scores_.dim(2));
    expected_ = reference::index_topk(call_, scores_);
    got_ = expected_;
  }

  std::int64_t row() const { return kHead * call_.config.num_tokens + kToken; }
  std::span<std::int32_t> got() {
    return got_.as<std::int32_t>().subspan(static_cast<std::size_t>(row() * 2), 2);
  }
  TopkDifference difference() const { return topk_difference(call_, expected_, got_, scores_); }

  static constexpr std::int64_t kToken = 4;
  static constexpr std::int64_t kHead = 1;
  LayerCall call_;
  Tensor scores_;
  Tensor expected_;
  Tensor got_;
};

TEST_F(TopkDifferenceTest, NamesTheBlocksTheirScoresAndTheGap) {
  ASSERT_EQ(got()[0], 3) << "the forced local block";
  ASSERT_EQ(got()[1], 1);
  got()[1] = 0;
  const TopkDifference found = difference();
  EXPECT_EQ(found.rows, 1);
  EXPECT_EQ(found.reordered_rows, 0);
  ASSERT_EQ(found.first.size(), 1U);
  const TopkRowDifference& row = found.first.front();
  EXPECT_EQ(row.token, kToken);
  EXPECT_EQ(row.kv_head, kHead);
  EXPECT_EQ(row.position, call_.positions.as<std::int64_t>()[kToken]);
  EXPECT_GE(row.request, 0);
  ASSERT_EQ(row.entered.size(), 1U);
  EXPECT_EQ(row.entered[0].block, 0);
  EXPECT_EQ(row.entered[0].score, 1.5);
  ASSERT_EQ(row.left.size(), 1U);
  EXPECT_EQ(row.left[0].block, 1);
  EXPECT_EQ(row.left[0].score, 2.0);
  EXPECT_EQ(row.worst_selected->block, 1);
  EXPECT_EQ(row.best_left_out->block, 0);
  EXPECT_EQ(row.gap, 0.5);
}

TEST_F(TopkDifferenceTest, TellsAForcedBlockFromOneThatWon) {
  got()[0] = 2;
  const TopkDifference found = difference();
  const TopkRowDifference& row = found.first.at(0);
  ASSERT_EQ(row.left.size(), 1U);
  EXPECT_EQ(row.left[0].block, 3);
  EXPECT_EQ(row.left[0].forced, "local");
  EXPECT_EQ(row.left[0].score, -3.0) << "the score itself, not what is forced";
  EXPECT_EQ(row.entered.at(0).forced, "");
}

TEST_F(TopkDifferenceTest, CallsTheSameBlocksInAnotherOrderThat) {
  std::swap(got()[0], got()[1]);
  const TopkDifference found = difference();
  EXPECT_EQ(found.rows, 1);
  EXPECT_EQ(found.reordered_rows, 1);
  EXPECT_TRUE(found.first.at(0).entered.empty());
  EXPECT_TRUE(found.first.at(0).left.empty());
}

TEST_F(TopkDifferenceTest, GivesNoScoreToABlockThatTheRowDoesNotSee) {
  got()[1] = 99;
  const TopkDifference found = difference();
  ASSERT_EQ(found.first.at(0).entered.size(), 1U);
  EXPECT_EQ(found.first[0].entered[0].block, 99);
  EXPECT_FALSE(found.first[0].entered[0].score.has_value());
}

TEST_F(TopkDifferenceTest, DoesNotListWhatIsNoBlock) {
  got()[1] = -1;
  const TopkDifference found = difference();
  EXPECT_TRUE(found.first.at(0).entered.empty());
  EXPECT_EQ(found.first[0].left.size(), 1U);
}

TEST_F(TopkDifferenceTest, MeasuresTiesAndNanByTheScoresInForce) {
  select({2.0F, 2.0F, 1.0F, 0.0F});
  got()[1] = 2;
  EXPECT_EQ(difference().first.at(0).gap, 0.0);
  EXPECT_EQ(difference().first[0].worst_selected->block, 0);
  EXPECT_EQ(difference().first[0].best_left_out->block, 1);
  select({kNan, kNan, kNan, 0.0F});
  got()[1] = 2;
  EXPECT_EQ(difference().first.at(0).gap, 0.0);
  EXPECT_TRUE(std::isnan(*difference().first[0].left.at(0).score));
  select({kNan, 5.0F, kNan, 0.0F});
  got()[1] = 2;
  EXPECT_EQ(difference().first.at(0).gap, 5.0 + 1e30);
}

TEST_F(TopkDifferenceTest, HasNoGapWithoutScores) {
  got()[1] = 0;
  const TopkDifference found = topk_difference(call_, expected_, got_, {});
  EXPECT_EQ(found.first.at(0).entered.at(0).block, 0);
  EXPECT_FALSE(found.first[0].entered[0].score.has_value());
  EXPECT_FALSE(found.first[0].gap.has_value());
}

TEST_F(TopkDifferenceTest, CountsAllRowsAndDescribesFour) {
  std::ranges::fill(got_.as<std::int32_t>(), 77);
  const TopkDifference found = difference();
  EXPECT_EQ(found.rows, 2 * call_.config.num_tokens);
  ASSERT_EQ(found.first.size(), 4U);
  EXPECT_EQ(found.first[3].token, 3);
  EXPECT_EQ(found.first[3].kv_head, 0);
}

// Where nobody kept the scores they are computed from what the expected side's selection was.
TEST_F(TopkDifferenceTest, ExplainsAComparisonOfOutputs) {
  const Outputs reference = reference::run_layer(call_);
  Outputs other = reference;
  for (const Comparison& same : compare_outputs(call_, reference, "reference", other, "other")) {
    EXPECT_FALSE(same.topk.has_value()) << same.output;
  }
  other.topk_index.as<std::int32_t>()[0] = 99;
  const Tensor scores = reference::index_score(call_, reference.index_q, reference.index_cache);
  int explained = 0;
  for (const Comparison& one : compare_outputs(call_, reference, "reference", other, "other")) {
    if (!one.topk) continue;
    ++explained;
    EXPECT_EQ(one.output, "topk_index");
    ASSERT_EQ(one.topk->first.size(), 1U);
    const SelectedBlock& left = one.topk->first[0].left.at(0);
    EXPECT_EQ(left.score, scores.as<float>()[static_cast<std::size_t>(left.block)]);
    EXPECT_TRUE(one.topk->first[0].gap.has_value());
  }
  EXPECT_EQ(explained, 1);
}

}  // namespace
}  // namespace zerodiff::compare
