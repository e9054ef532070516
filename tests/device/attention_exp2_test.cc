// EXP2 of the contract against 2^t in higher precision, and at the ends of its range.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "device/kernels/exp2.hip.h"

namespace zerodiff::device {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Distance from 2^t in units of the last place of the result.
double error_in_ulps(float t) {
  const long double exact = std::exp2(static_cast<long double>(t));
  const float got = contract_exp2(t);
  const double ulp = std::ldexp(1.0, std::ilogb(static_cast<float>(exact)) - 23);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact)) / ulp;
}

TEST(ContractExp2, IsExactAtWholeNumbers) {
  for (int n = 0; n >= -125; --n) {
    EXPECT_EQ(contract_exp2(static_cast<float>(n)), std::ldexp(1.0F, n)) << n;
  }
  EXPECT_EQ(contract_exp2(-0.0F), 1.0F);
}

TEST(ContractExp2, EndsWhereTheContractSaysSo) {
  const float below = std::nextafterf(-125.0F, -kInfinity);
  for (const float t : {below, -126.0F, -149.0F, -1e30F, -kInfinity}) {
    EXPECT_EQ(contract_exp2(t), 0.0F) << t;
    EXPECT_FALSE(std::signbit(contract_exp2(t))) << t;
  }
  EXPECT_TRUE(std::isnan(contract_exp2(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(contract_exp2(-std::numeric_limits<float>::quiet_NaN())));
}

// numerics.md states the worst error over all inputs; this is the input that has it.
TEST(ContractExp2, HasTheErrorThatTheContractStates) {
  EXPECT_NEAR(error_in_ulps(-0x1.fd0cd6p-2F), 0.948256, 5e-7);
}

TEST(ContractExp2, StaysWithinItsErrorEverywhere) {
  const auto last = bits_as<std::uint32_t>(125.0F);
  for (std::uint32_t magnitude = 1; magnitude <= last; magnitude += 997) {
    const float t = -bits_as<float>(magnitude);
    ASSERT_LE(error_in_ulps(t), 0.948257) << t;
  }
}

// Halves are where n changes; they round to even.
TEST(ContractExp2, StaysWithinItsErrorAroundHalves) {
  for (int n = 0; n >= -124; --n) {
    const float half = static_cast<float>(n) - 0.5F;
    for (const float t : {std::nextafterf(half, -kInfinity), half, std::nextafterf(half, 0.0F)}) {
      EXPECT_LE(error_in_ulps(t), 0.948257) << t;
    }
  }
}

}  // namespace
}  // namespace zerodiff::device
