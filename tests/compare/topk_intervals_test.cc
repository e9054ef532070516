#include "compare/topk_intervals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/compare/attention_inputs.h"

namespace zerodiff::compare {
namespace {

constexpr std::int64_t kPosition = 6 * 128 + 5;  // sees blocks 0..6

struct SelectionRow {
  const char* name;
  std::vector<std::int32_t> got;  // topk = 4
  SelectionVerdict verdict;
  std::vector<std::int64_t> entered{};
  std::vector<std::int64_t> left{};
  double gap = 0;
};
void PrintTo(const SelectionRow& row, std::ostream* out) {
  *out << row.name;
}

// Blocks 0..6 score 10, 40, 20, 30 - 0.5..30 + 0.5, 30, 5 and NaN's number; the contract takes the
// own block 6, then 1, 3, 4.
class Selections : public testing::TestWithParam<SelectionRow> {
 protected:
  Selections() : attention_(random_case(test::kBfloat16, 1, {kPosition}, 1, 1, 1, 4)) {
    intervals_.tokens = 1;
    intervals_.blocks = attention_.call.block_table.dim(1);
    const double inf = HUGE_VAL;
    intervals_.elements = {{10, 10, 10},       {40, 40, 40},   {20, 20, 20}, {29.5, 30, 30.5},
                           {29.9, 30, 30.125}, {29, 29.6, 30}, {7, 7, 7},    {-inf, -inf, -inf}};
  }
  SelectionCheck check(const std::vector<std::int32_t>& got, bool exact_order = false) const {
    return check_selection(attention_.call, intervals_, test::int32_tensor({1, 1, 4}, {6, 1, 3, 4}),
                           test::int32_tensor({1, 1, 4}, got), {exact_order, 8});
  }
  AttentionCase attention_;
  ScoreIntervals intervals_;
};

TEST_P(Selections, AreJudgedByIntervals) {
  const SelectionCheck check = this->check(GetParam().got);
  EXPECT_EQ(check.rows, 1);
  const bool fault = GetParam().verdict > SelectionVerdict::within;
  EXPECT_EQ(check.faults, fault ? 1 : 0);
  EXPECT_EQ(check.identical, GetParam().verdict == SelectionVerdict::identical ? 1 : 0);
  EXPECT_EQ(check.reordered, GetParam().verdict == SelectionVerdict::reordered ? 1 : 0);
  if (GetParam().verdict <= SelectionVerdict::reordered) return;
  ASSERT_EQ(check.first.size(), 1U);
  const SelectionDifference& row = check.first.front();
  EXPECT_EQ(row.verdict, GetParam().verdict) << name_of(row.verdict) << ": " << row.problem;
  EXPECT_EQ(row.problem.empty(), !fault) << row.problem;
  const Coordinates where{{"kv_head", 0}, {"token", 0}, {"request", 0}, {"position", kPosition}};
  EXPECT_EQ(row.where, where);
  if (GetParam().verdict == SelectionVerdict::malformed) return;
  std::vector<std::int64_t> entered;
  std::vector<std::int64_t> left;
  for (const RankedBlock& block : row.entered) entered.push_back(block.id);
  for (const RankedBlock& block : row.left) left.push_back(block.id);
  EXPECT_EQ(entered, GetParam().entered);
  EXPECT_EQ(left, GetParam().left);
  EXPECT_NEAR(row.gap, GetParam().gap, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(
    , Selections,
    testing::Values(
        SelectionRow{"contract", {6, 1, 3, 4}, SelectionVerdict::identical},
        SelectionRow{"other_order", {3, 4, 1, 6}, SelectionVerdict::reordered},
        SelectionRow{"within", {6, 1, 3, 5}, SelectionVerdict::within, {5}, {4}, 29.9 - 30},
        SelectionRow{"below", {6, 1, 3, 2}, SelectionVerdict::wrong, {2}, {4}, 29.9 - 20},
        SelectionRow{"best_left_out", {6, 5, 3, 4}, SelectionVerdict::wrong, {5}, {1}, 40 - 30},
        SelectionRow{"own_block_missing",
                     {1, 3, 4, 5},
                     SelectionVerdict::wrong,
                     {5},
                     {6},
                     static_cast<double>(1e29F) - 30},
        SelectionRow{"duplicate", {6, 1, 3, 3}, SelectionVerdict::malformed},
        SelectionRow{"not_causal", {6, 1, 3, 7}, SelectionVerdict::malformed},
        SelectionRow{"too_few", {6, 1, 3, -1}, SelectionVerdict::malformed},
        SelectionRow{"sentinel_in_front", {-1, 6, 1, 3}, SelectionVerdict::malformed},
        SelectionRow{"garbage", {6, 1, 3, 1 << 30}, SelectionVerdict::malformed}),
    [](const auto& row) { return std::string(row.param.name); });

class SelectionRules : public Selections {};

TEST_F(SelectionRules, AskForRankOrderOnlyWhereItIsDemanded) {
  EXPECT_EQ(check({3, 4, 1, 6}, true).faults, 1);
  EXPECT_EQ(check({3, 4, 1, 6}, true).first_faults.front().verdict, SelectionVerdict::ill_ordered);
  // 3 and 4 overlap.
  EXPECT_EQ(check({6, 1, 4, 3}, true).faults, 0);
  EXPECT_EQ(check({6, 1, 4, 3}, true).within, 1);
}

TEST_F(SelectionRules, LetEqualScoresTrade) {
  intervals_.elements[5] = intervals_.elements[4];
  EXPECT_EQ(check({6, 1, 3, 5}).tied, 1);
  EXPECT_EQ(check({6, 1, 3, 5}).faults, 0);
}

TEST_F(SelectionRules, KeepForcedBlocksOfBothKinds) {
  attention_.call.config.init_blocks = 1;
  attention_.call.config.local_blocks = 2;
  EXPECT_EQ(check({0, 5, 6, 1}).faults, 0);
  EXPECT_EQ(check({1, 5, 6, 3}).faults, 1) << "block 0 is an init block";
  EXPECT_NE(check({1, 5, 6, 3}).first_faults.front().problem.find("forced block 0"),
            std::string::npos);
  EXPECT_EQ(check({0, 1, 6, 3}).faults, 1) << "block 5 is a local block";
}

TEST_F(SelectionRules, RankNaNBelowEverything) {
  intervals_.elements[1] = {std::nan(""), std::nan(""), std::nan("")};
  EXPECT_EQ(check({6, 5, 3, 4}).faults, 0);
  EXPECT_EQ(check({6, 1, 3, 4}).faults, 0) << "the contract's own row is never asked about";
  EXPECT_EQ(check({6, 1, 4, 3}).faults, 1);
}

TEST(SelectionOfShortRows, HasOneBlockForEachVisibleOne) {
  const AttentionCase attention = random_case(test::kBfloat16, 1, {130, -1}, 1, 1, 1, 4);
  const ScoreIntervals intervals =
      score_intervals(attention.call, attention.outputs.index_q, attention.outputs.index_cache,
                      Accumulator::fp32, 1);
  const auto faults = [&](const std::vector<std::int32_t>& ids) {
    return check_selection(attention.call, intervals, attention.outputs.topk_index,
                           test::int32_tensor({1, 2, 4}, ids))
        .faults;
  };
  EXPECT_EQ(faults({0, 1, -1, -1, -1, -1, -1, -1}), 0);
  EXPECT_EQ(faults({1, 0, -1, -1, -1, -1, -1, -1}), 0);
  EXPECT_EQ(faults({1, 0, 2, -1, -1, -1, -1, -1}), 1) << "block 2 is not visible";
  EXPECT_EQ(faults({1, 0, 0, 0, -1, -1, -1, -1}), 1);
  EXPECT_EQ(faults({1, -1, -1, -1, -1, -1, -1, -1}), 1);
  EXPECT_EQ(faults({1, 0, -1, -1, 0, -1, -1, -1}), 1) << "an empty row selects nothing";
}

}  // namespace
}  // namespace zerodiff::compare
