// compare/head_contract.h: positions at the ends of int64, where sums would overflow.
#include "compare/head_contract.h"

#include <gtest/gtest.h>

#include <limits>

namespace zerodiff::compare {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

TEST(PositionPlus, StaysAtTheEnds) {
  EXPECT_EQ(position_plus(5, -7), -2);
  EXPECT_EQ(position_plus(kLeast, 1), kLeast + 1);
  EXPECT_EQ(position_plus(kLeast, -1), kLeast);
  EXPECT_EQ(position_plus(kLargest, 1), kLargest);
}

TEST(ShiftBetween, StaysAtTheEnds) {
  EXPECT_EQ(shift_between(5, -7), -12);
  EXPECT_EQ(shift_between(kLeast, 0), kLargest);
  EXPECT_EQ(shift_between(1, kLeast), kLeast);
  EXPECT_EQ(shift_between(-1, kLargest), kLargest);
}

}  // namespace
}  // namespace zerodiff::compare
