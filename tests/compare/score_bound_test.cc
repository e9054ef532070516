#include "compare/score_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/compare/attention_inputs.h"

namespace zerodiff::compare {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

ScoreIntervals intervals_of(const AttentionCase& attention, Accumulator accumulator) {
  return score_intervals(attention.call, attention.outputs.index_q, attention.outputs.index_cache,
                         accumulator, 1);
}

class ScoresOfTheReference : public testing::TestWithParam<test::CallKind> {};

TEST_P(ScoresOfTheReference, AreWithinTheBoundOfBinary32) {
  const AttentionCase attention = random_case(GetParam(), 4, {0, 127, 128, 300, 1000});
  const ScoreIntervals intervals = intervals_of(attention, Accumulator::fp32);
  const ScoreCheck check = check_scores(attention.call, intervals, attention.outputs.index_score);
  EXPECT_EQ(check.headroom.outside, 0);
  EXPECT_FALSE(check.scaled);
  EXPECT_EQ(check.headroom.elements, attention.outputs.index_score.size());
  // Sums of products of two fp8 numbers are mostly exact in binary32.
  if (!is_fp8(attention.call.index_cache_type())) {
    EXPECT_GT(check.headroom.max, 0.001);
  }
}

TEST_P(ScoresOfTheReference, MayBeScaled) {
  AttentionCase attention = random_case(GetParam(), 4, {0, 300, 1000});
  const float factor = attention.call.config.sm_scale * 1.44269504F;
  for (float& score : attention.outputs.index_score.as<float>()) score *= factor;
  const ScoreIntervals intervals = intervals_of(attention, Accumulator::fp32);
  const ScoreCheck check = check_scores(attention.call, intervals, attention.outputs.index_score);
  EXPECT_EQ(check.headroom.outside, 0);
  EXPECT_TRUE(check.scaled);
}

INSTANTIATE_TEST_SUITE_P(, ScoresOfTheReference, testing::ValuesIn(test::kCallKinds),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(ScoreIntervals, AreExactToTheBitOnSmallIntegers) {
  AttentionCase attention = random_case(test::kBfloat16, 1, {130}, 1, 1);
  for (std::int64_t i = 0; i < attention.outputs.index_q.size(); ++i) {
    test::put(attention.outputs.index_q, i, i == 0 ? 3.0F : 0.0F);
  }
  for (std::int64_t i = 0; i < attention.outputs.index_cache.size(); ++i) {
    test::put(attention.outputs.index_cache, i, i % 128 == 0 ? -2.0F : 1.0F);
  }
  const std::int64_t best = test::slot_of(attention.call, 0, 5);
  test::put(attention.outputs.index_cache, best * 128, 7.0F);
  // Past the row's position, so it does not count.
  test::put(attention.outputs.index_cache, test::slot_of(attention.call, 0, 131) * 128, 100.0F);
  const ScoreIntervals intervals = intervals_of(attention, Accumulator::fp32);
  EXPECT_EQ(intervals.at(0, 0, 0).exact, 21.0);
  EXPECT_EQ(intervals.at(0, 0, 1).exact, -6.0);
  EXPECT_EQ(intervals.at(0, 0, 2).exact, -HUGE_VAL);
  // 128 terms, and twice the largest partial sum is |21| + 21.
  EXPECT_NEAR(intervals.at(0, 0, 0).high - 21, 128 * 0x1p-24 * 21, 1e-8);
  EXPECT_NEAR(21 - intervals.at(0, 0, 0).low, 128 * 0x1p-24 * 21, 1e-8);
}

TEST(ScoreIntervals, AreWiderWithFewerBits) {
  const AttentionCase attention = random_case(test::kCallKinds[3], 2, {500});
  const ScoreInterval narrow = intervals_of(attention, Accumulator::fp32).at(0, 0, 0);
  const ScoreInterval wide = intervals_of(attention, Accumulator::tensor_fp8).at(0, 0, 0);
  EXPECT_EQ(narrow.exact, wide.exact);
  EXPECT_GT(wide.high - wide.exact, 1000 * (narrow.high - narrow.exact));
}

TEST(ScoreIntervals, PassOverNaNUnlessThereIsNothingElse) {
  AttentionCase attention = random_case(test::kBfloat16, 3, {130}, 1, 1);
  const float nan = std::nanf("");
  for (std::int64_t d = 0; d < 128; ++d) {
    test::put(attention.outputs.index_cache, test::slot_of(attention.call, 0, 3) * 128 + d, nan);
    for (std::int64_t position = 128; position <= 130; ++position) {
      test::put(attention.outputs.index_cache, test::slot_of(attention.call, 0, position) * 128 + d,
                nan);
    }
  }
  run_stages(attention);
  const ScoreIntervals intervals = intervals_of(attention, Accumulator::fp32);
  EXPECT_TRUE(std::isfinite(intervals.at(0, 0, 0).exact));
  EXPECT_TRUE(std::isnan(intervals.at(0, 0, 1).exact));
  const ScoreCheck check = check_scores(attention.call, intervals, attention.outputs.index_score);
  EXPECT_EQ(check.headroom.outside, 0);
  attention.outputs.index_score.as<float>()[1] = 0;
  EXPECT_EQ(check_scores(attention.call, intervals, attention.outputs.index_score).headroom.outside,
            1);
}

TEST(ScoreIntervals, AreOpenWhereASumMayOverflow) {
  AttentionCase attention = random_case(test::kBfloat16, 3, {100}, 1, 1);
  for (std::int64_t d = 0; d < 128; ++d) {
    test::put(attention.outputs.index_q, d, d % 2 == 0 ? 0x1p100F : -0x1p100F);
    test::put(attention.outputs.index_cache, test::slot_of(attention.call, 0, 7) * 128 + d,
              0x1p27F);
  }
  const ScoreIntervals intervals = intervals_of(attention, Accumulator::fp32);
  EXPECT_EQ(intervals.at(0, 0, 0).high, HUGE_VAL);
  for (const float got : {kInfinity, 0.0F}) {
    attention.outputs.index_score.as<float>()[0] = got;
    const ScoreCheck check = check_scores(attention.call, intervals, attention.outputs.index_score);
    EXPECT_EQ(check.headroom.outside, 0) << got;
    EXPECT_EQ(check.headroom.unbounded, 1) << got;
  }
}

struct WrongScore {
  const char* name;
  std::int64_t block;
  float value;
};
void PrintTo(const WrongScore& wrong, std::ostream* out) {
  *out << wrong.name;
}

class WrongScores : public testing::TestWithParam<WrongScore> {};

TEST_P(WrongScores, AreOutside) {
  AttentionCase attention = random_case(test::kBfloat16, 8, {300}, 1, 1);
  float& score =
      attention.outputs.index_score.as<float>()[static_cast<std::size_t>(GetParam().block)];
  score = GetParam().value == 1 ? score * (1 + 0x1p-10F) : GetParam().value;
  const ScoreCheck check =
      check_scores(attention.call, intervals_of(attention, Accumulator::tensor_fp32),
                   attention.outputs.index_score);
  EXPECT_EQ(check.headroom.outside, 1);
  EXPECT_EQ(check.headroom.first_outside.front().flat_index, GetParam().block);
}

INSTANTIATE_TEST_SUITE_P(, WrongScores,
                         testing::Values(WrongScore{"nan", 0, std::nanf("")},
                                         WrongScore{"forced_already", 2, 1e29F},
                                         WrongScore{"not_visible", 3, 0},
                                         WrongScore{"unwritten", 1, -kInfinity},
                                         WrongScore{"one_part_in_1024", 0, 1}),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace zerodiff::compare
