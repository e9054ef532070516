// reference/qk_norm_rope.h: closed forms, the legal choices, and the look-up rules of the table.
// Its arithmetic at large is in qk_norm_rope_mpfr_test.cc.
#include "reference/qk_norm_rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

#include "tests/oracle/number_formats.h"
#include "tests/reference/same_float.h"

namespace zerodiff::reference {
namespace {

using test::same;
using Head = std::array<float, kHeadDim>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(ReciprocalRms, MovesByTheUlpsAskedFor) {
  for (const float ss : {128.0F, 127.99999F, 1e-3F, 3e8F, 0.0F}) {
    const auto canonical = std::bit_cast<std::int32_t>(reciprocal_rms(ss, 1e-6F, 0));
    for (const int ulps : {-3, -2, -1, 1, 2, 3}) {
      const auto moved = std::bit_cast<std::int32_t>(reciprocal_rms(ss, 1e-6F, ulps));
      EXPECT_EQ(moved - canonical, ulps) << "ss " << ss;
    }
  }
}

// 1/sqrt(infinity) is exactly 0 in every rsqrt; one ulp less would be a negative number.
TEST(ReciprocalRms, ZeroAndNanAreNotMoved) {
  for (const int ulps : {-2, -1, 1, 2}) {
    EXPECT_TRUE(same(0.0F, reciprocal_rms(kInfinity, 1e-6F, ulps))) << ulps;
    EXPECT_TRUE(same(kNan, reciprocal_rms(kNan, 1e-6F, ulps))) << ulps;
  }
}

TEST(SumOfSquares, LaneOrderIsVisible) {
  // 2^24 and 1s: the order decides how many of the ones survive.
  Head x;
  x.fill(1);
  x[0] = 0x1p12F;
  EXPECT_EQ(sum_of_squares(x, SumsqOrder::sequential), 0x1p24F);
  EXPECT_EQ(sum_of_squares(x, SumsqOrder::lane_sum128), 0x1p24F + 124);
  EXPECT_EQ(sum_of_squares(x, SumsqOrder::pairwise), 0x1p24F + 126);
}

RopeRow some_angles(std::int64_t half) {
  RopeRow rope{};
  rope.half = half;
  for (std::size_t i = 0; i < static_cast<std::size_t>(half); ++i) {
    rope.cos.at(i) = 0.5F;
    rope.sin.at(i) = -0.75F;
  }
  return rope;
}

TEST(Rope, PairsAreHalfARotaryDimApartAndTheRestPassesThrough) {
  for (const std::int64_t half : {4, 8, 32, 60, 64}) {
    Head y;
    for (std::size_t d = 0; d < y.size(); ++d) y[d] = static_cast<float>(d + 1);
    const Head before = y;
    apply_rope(y, some_angles(half), RopeContraction::fma_cos);
    const auto h = static_cast<std::size_t>(half);
    for (std::size_t d = 0; d < y.size(); ++d) {
      float expected = before[d];
      if (d < h) expected = before[d] * 0.5F + before[d + h] * 0.75F;
      if (d >= h && d < 2 * h) expected = before[d] * 0.5F - before[d - h] * 0.75F;
      EXPECT_EQ(y[d], expected) << "half " << half << " dim " << d;
    }
  }
}

// Ties them to the contract: each contraction rounds something that the others do not.
TEST(Rope, ContractionsDifferWhereTheirRoundingsDo) {
  Head y{};
  y[0] = 0x1.000002p0F;
  y[4] = 0x1.000004p0F;
  RopeRow rope{};
  rope.half = 4;
  rope.cos[0] = 0x1.01p0F;
  rope.sin[0] = 0x1.01p0F;
  Head cos_head = y;
  Head sin_head = y;
  Head separate_head = y;
  apply_rope(cos_head, rope, RopeContraction::fma_cos);
  apply_rope(sin_head, rope, RopeContraction::fma_sin);
  apply_rope(separate_head, rope, RopeContraction::separate);
  const double a = double{0x1.000002p0} * 0x1.01p0;  // exact
  const double b = double{0x1.000004p0} * 0x1.01p0;
  const auto rounded = [](double value) { return static_cast<double>(static_cast<float>(value)); };
  EXPECT_EQ(cos_head[0], static_cast<float>(a - rounded(b)));
  EXPECT_EQ(sin_head[0], static_cast<float>(rounded(a) - b));
  EXPECT_EQ(separate_head[0], static_cast<float>(rounded(a) - rounded(b)));
  EXPECT_NE(cos_head[0], separate_head[0]);
  EXPECT_NE(sin_head[0], separate_head[0]);
  EXPECT_NE(cos_head[0], sin_head[0]);
}

// A table whose element i of the row of position p is 16p + i.
LayerCall call_with_table(const std::vector<std::int64_t>& rows, bool sparse) {
  LayerCall call;
  call.config.rotary_dim = 8;
  const auto count = static_cast<std::int64_t>(rows.size());
  call.cos_sin_cache = Tensor::allocate(ElementType::float16, {count, 8});
  const auto table = call.cos_sin_cache.as<std::uint16_t>();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t i = 0; i < 8; ++i) {
      const auto value = static_cast<float>(16 * rows[row] + static_cast<std::int64_t>(i));
      table[row * 8 + i] = oracle::encode_model_dtype(ElementType::float16, value);
    }
  }
  if (!sparse) return call;
  call.cos_sin_rows = Tensor::allocate(ElementType::int64, {count});
  std::copy(rows.begin(), rows.end(), call.cos_sin_rows.as<std::int64_t>().begin());
  return call;
}

void expect_row_of(std::int64_t position, const RopeRow& row) {
  ASSERT_EQ(row.half, 4);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(row.cos.at(i), static_cast<float>(16 * position) + static_cast<float>(i));
    EXPECT_EQ(row.sin.at(i), static_cast<float>(16 * position) + static_cast<float>(i + 4));
  }
}

TEST(RopeTable, DenseTableIsIndexedByPosition) {
  const LayerCall call = call_with_table({0, 1, 2}, false);
  const RopeTable table(call);
  for (const std::int64_t position : {0, 1, 2}) expect_row_of(position, table.row(position));
  for (const std::int64_t position : {std::int64_t{-1}, std::int64_t{-5}, INT64_MIN}) {
    expect_row_of(0, table.row(position));
  }
}

TEST(RopeTable, SparseTableIsSearched) {
  const LayerCall call = call_with_table({0, 5, 9, 100}, true);
  const RopeTable table(call);
  for (const std::int64_t position : {0, 5, 9, 100}) expect_row_of(position, table.row(position));
  expect_row_of(0, table.row(-1));
}

TEST(RopeTable, NegativePositionWithoutARowOfZeroIsTheIdentity) {
  const LayerCall call = call_with_table({5, 9}, true);
  const RopeTable table(call);
  const RopeRow row = table.row(-3);
  ASSERT_EQ(row.half, 4);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(row.cos.at(i), 1.0F);
    EXPECT_EQ(row.sin.at(i), 0.0F);
  }
}

}  // namespace
}  // namespace zerodiff::reference
