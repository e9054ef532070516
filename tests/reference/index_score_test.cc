// reference/index_score.h by closed forms (numerics.md section 10). Random calls against the oracle
// are in attention_random_test.cc.
#include "reference/index_score.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/reference/attention_calls.h"

namespace zerodiff::reference {
namespace {

using test::put;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A call of zeros with one kv head, and what the stage reads.
struct ScoreCase {
  LayerCall call;
  Outputs inputs;

  explicit ScoreCase(std::vector<std::int64_t> positions, test::CallKind kind = test::kBfloat16,
                     std::int64_t num_kv_heads = 1, std::int64_t pool_blocks = 7) {
    test::CallShape shape;
    shape.config = test::plain_config(num_kv_heads, num_kv_heads);
    shape.kind = kind;
    shape.positions = std::move(positions);
    shape.pool_blocks = pool_blocks;
    call = test::decode_call(shape);
    inputs = test::zero_insertion(call);
  }

  void query(std::int64_t row, std::int64_t head, std::int64_t d, float value) {
    put(inputs.index_q, (row * call.config.num_index_heads + head) * kHeadDim + d, value);
  }
  // Of the token that request `request` has at `position`.
  void key(std::int64_t request, std::int64_t position, std::int64_t d, float value) {
    put(inputs.index_cache, test::slot_of(call, request, position) * kHeadDim + d, value);
  }
  void all_queries(float value) {
    for (std::int64_t i = 0; i < inputs.index_q.size(); ++i) put(inputs.index_q, i, value);
  }

  Tensor scores() const { return index_score(call, inputs.index_q, inputs.index_cache, 1); }
  float score(std::int64_t block) const {
    return scores().as<float>()[static_cast<std::size_t>(block)];
  }
};

std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

class IndexScorePosition : public testing::TestWithParam<std::int64_t> {};

// Keys grow within a block, so that a block's score tells the last position that counted; the token
// after the row's own, which a later row would see, holds the largest of all.
TEST_P(IndexScorePosition, LooksAtPositionsUpToTheTokensOwn) {
  const std::int64_t position = GetParam();
  ScoreCase test({position});
  test.query(0, 0, 5, 1);
  for (std::int64_t j = 0; j <= position; ++j) {
    test.key(0, j, 5, static_cast<float>(j % kBlockSize + 1));
  }
  test.key(0, position + 1, 5, 1024);
  const Tensor scores = test.scores();
  const std::int64_t own = position / kBlockSize;
  for (std::int64_t block = 0; block < scores.dim(2); ++block) {
    const float whole = block < own ? 128.0F : -kInfinity;
    const float wanted = block == own ? static_cast<float>(position % kBlockSize + 1) : whole;
    EXPECT_EQ(scores.as<float>()[static_cast<std::size_t>(block)], wanted) << "block " << block;
  }
}

INSTANTIATE_TEST_SUITE_P(, IndexScorePosition,
                         testing::Values(0, 1, 7, 8, 15, 16, 17, 126, 127, 128, 129, 254, 255, 256,
                                         257, 511, 600));

TEST(IndexScore, EveryBlockHoldsItsOwnMaximumWhereverItIs) {
  for (std::int64_t place = 0; place < kBlockSize; ++place) {
    ScoreCase test({383});
    test.query(0, 0, 0, -1);
    for (std::int64_t j = 0; j < 384; ++j) test.key(0, j, 0, 200);
    for (std::int64_t block = 0; block < 3; ++block) {
      test.key(0, block * kBlockSize + place, 0, static_cast<float>(block - 2));
    }
    const Tensor scores = test.scores();
    EXPECT_EQ(scores.as<float>()[0], 2) << place;
    EXPECT_EQ(scores.as<float>()[1], 1) << place;
    EXPECT_EQ(scores.as<float>()[2], 0) << place;
  }
}

// Any other order of these additions keeps some of the ones.
TEST(IndexScore, AddsDimsInOrder) {
  ScoreCase test({0});
  test.all_queries(1);
  test.key(0, 0, 0, 0x1p24F);
  for (std::int64_t d = 1; d < 127; ++d) test.key(0, 0, d, 1);
  test.key(0, 0, 127, -0x1p24F);
  EXPECT_EQ(test.score(0), 0);
  test.key(0, 0, 0, 1);
  test.key(0, 0, 127, 0x1p24F);
  EXPECT_EQ(test.score(0), 0x1p24F + 128);  // 127 is halfway to 128, and 126 ones came before
  test.key(0, 0, 127, 0);
  EXPECT_EQ(test.score(0), 127);
}

// Half of the smallest subnormal: lost as a product of its own, not inside an fma.
TEST(IndexScore, FusesProductsBelowTheSubnormals) {
  ScoreCase test({0});
  test.query(0, 0, 0, 0x1p-75F);
  test.query(0, 0, 1, 0x1p-75F);
  test.key(0, 0, 0, 0x1p-74F);  // 2^-149
  test.key(0, 0, 1, 0x1p-75F);  // 2^-150
  EXPECT_EQ(bits_of(test.score(0)), 2U);
}

// The last product underflows to -0, which +0 must cover.
TEST(IndexScore, IsNeverMinusZero) {
  ScoreCase test({128});
  test.query(0, 0, 127, 0x1p-126F);
  for (std::int64_t j = 0; j <= 128; ++j) test.key(0, j, 127, -0x1p-126F);
  const float dot = std::fma(0x1p-126F, -0x1p-126F, 0.0F);
  ASSERT_EQ(bits_of(dot), 0x80000000U);
  EXPECT_EQ(bits_of(test.score(0)), 0U);
  EXPECT_EQ(bits_of(test.score(1)), 0U);
}

class IndexScoreNan : public testing::TestWithParam<test::CallKind> {};

TEST_P(IndexScoreNan, IsIgnoredUnlessThereIsNothingElse) {
  ScoreCase test({130}, GetParam());
  test.query(0, 0, 3, 1);
  for (std::int64_t j = 0; j < 128; ++j) test.key(0, j, 3, j == 77 ? -2.0F : kNan);
  for (std::int64_t j = 128; j <= 130; ++j) test.key(0, j, 3, kNan);
  test.key(0, 131, 3, 1);  // a number, but not visible
  EXPECT_EQ(test.score(0), -2);
  EXPECT_TRUE(std::isnan(test.score(1)));
}

TEST_P(IndexScoreNan, InTheQuerySpoilsEveryBlockOfThatHeadOnly) {
  ScoreCase test({130}, GetParam(), 2);
  test.query(0, 0, 3, kNan);
  const Tensor scores = test.scores();
  const auto values = scores.as<float>();
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_TRUE(std::isnan(values[1]));
  EXPECT_EQ(values[2], -kInfinity);  // not visible
  EXPECT_EQ(bits_of(values[3]), 0U);
  EXPECT_EQ(bits_of(values[4]), 0U);
}

INSTANTIATE_TEST_SUITE_P(, IndexScoreNan, testing::ValuesIn(test::kCallKinds),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(IndexScore, CarriesInfinities) {
  ScoreCase test({300});
  test.query(0, 0, 0, 1);
  test.query(0, 0, 1, 1);
  test.key(0, 5, 0, kInfinity);
  test.key(0, 6, 0, -kInfinity);
  for (std::int64_t j = 128; j < 256; ++j) test.key(0, j, 0, -kInfinity);
  test.key(0, 256, 0, kInfinity);  // +inf - inf is NaN, and the other tokens' 0 counts
  test.key(0, 256, 1, -kInfinity);
  EXPECT_EQ(test.score(0), kInfinity);
  EXPECT_EQ(test.score(1), -kInfinity);
  EXPECT_EQ(test.score(2), 0);
}

TEST(IndexScore, EmptyRowsSeeNothingWhateverTheirNegativePosition) {
  for (const std::int64_t position : {std::int64_t{-1}, std::int64_t{-128}, std::int64_t{-129},
                                      std::int64_t{INT32_MIN}, INT64_MIN, INT64_MIN + 1}) {
    ScoreCase test({position, 140, position});
    test.all_queries(1);
    const Tensor scores = test.scores();
    ASSERT_EQ(scores.shape(), (Shape{1, 3, 3}));
    const std::vector<float> wanted{-kInfinity, -kInfinity, -kInfinity, 0,         0,
                                    -kInfinity, -kInfinity, -kInfinity, -kInfinity};
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), scores.as<float>().begin())) << position;
  }
}

class IndexScoreEmptyPosition : public testing::TestWithParam<std::int64_t> {};

// Rows of one request, an empty one among them: what its neighbours see must not reach it. Counting
// live tokens as p + 1 - 128 b once wrapped around for the least position.
TEST_P(IndexScoreEmptyPosition, RowsOfOneRequestSeeUpToTheirOwnPositions) {
  ScoreCase test({127, 128, 129, 130});
  test.call.query_start_loc = test::int32_tensor({5}, {0, 4, 4, 4, 4});
  test.call.positions.as<std::int64_t>()[2] = GetParam();
  test.all_queries(1);
  for (std::int64_t j = 0; j < 131; ++j) test.key(0, j, 0, static_cast<float>(j % 128 + 1));
  const Tensor scores = test.scores();
  const std::vector<float> wanted{128,        -kInfinity, -kInfinity, 128, 1, -kInfinity,
                                  -kInfinity, -kInfinity, -kInfinity, 128, 3, -kInfinity};
  EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), scores.as<float>().begin()));
}

INSTANTIATE_TEST_SUITE_P(, IndexScoreEmptyPosition,
                         testing::Values(-1, -2, -127, -128, -129, INT32_MIN, INT64_MIN + 1,
                                         INT64_MIN));

// Index slots are never rebased, in block_contiguous storage either, and heads share index K.
TEST(IndexScore, ReadsTheSlotsOfTheBlockTable) {
  for (const test::CallKind& kind : test::kCallKinds) {
    ScoreCase test({200, 5, 300}, kind, 2, 8);
    for (std::int64_t row = 0; row < 3; ++row) {
      test.query(row, 0, 9, 1);
      test.query(row, 1, 9, -2);
    }
    for (std::int64_t slot = 0; slot < 8 * kBlockSize; ++slot) {
      const std::int64_t block = slot / kBlockSize;
      put(test.inputs.index_cache, slot * kHeadDim + 9, static_cast<float>(block));
    }
    const Tensor scores = test.scores();
    const auto value = [&](std::int64_t head, std::int64_t row, std::int64_t block) {
      return scores.as<float>()[static_cast<std::size_t>((head * 3 + row) * 4 + block)];
    };
    // Row r, block b: pool block 7 - (4r + b) % 8.
    EXPECT_EQ(value(0, 0, 0), 7) << kind.name;
    EXPECT_EQ(value(0, 0, 1), 6) << kind.name;
    EXPECT_EQ(value(0, 0, 2), -kInfinity) << kind.name;
    EXPECT_EQ(value(0, 1, 0), 3) << kind.name;
    EXPECT_EQ(value(0, 2, 2), 5) << kind.name;
    EXPECT_EQ(value(1, 0, 1), -12) << kind.name;
    EXPECT_EQ(value(1, 2, 0), -14) << kind.name;
  }
}

TEST(IndexScore, NoTokensGiveNoScores) {
  ScoreCase test({0, 0});
  test.call.config.num_tokens = 0;
  test.call.query_start_loc = test::int32_tensor({3}, {0, 0, 0});
  EXPECT_EQ(test.scores().shape(), (Shape{1, 0, 2}));
}

}  // namespace
}  // namespace zerodiff::reference
