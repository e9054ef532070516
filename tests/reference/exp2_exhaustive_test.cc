// reference/exp2.h on every binary32 up to -0.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <thread>

#include "reference/exp2.h"
#include "tests/oracle/attention_oracle.h"

namespace zerodiff::reference {
namespace {

constexpr std::uint32_t kMinusZero = 0x80000000;
constexpr std::uint32_t kMinus125 = 0xC2FA0000;
constexpr std::uint32_t kMinusInfinity = 0xFF800000;
constexpr std::uint32_t kLast = 0xFFFFFFFF;

struct Findings {
  std::int64_t arguments = 0;
  std::int64_t not_the_oracle = 0;
  double worst_ulp = 0;
  float worst_at = 0;
};

// Every second argument from `first`. glibc's exp2 is within 0.6 ulp of binary64, 2^-29 of the ulp
// that is measured here.
Findings measure(std::uint32_t first) {
  Findings found;
  for (std::uint64_t bits = first; bits <= kMinus125; bits += 2) {
    const auto t = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const float got = exp2_contract(t);
    const double exact = std::exp2(static_cast<double>(t));
    const double ulp =
        std::bit_cast<double>(std::bit_cast<std::uint64_t>(exact) & 0x7FF0000000000000U) * 0x1p-23;
    const double error = std::fabs(static_cast<double>(got) - exact) / ulp;
    if (error > found.worst_ulp) {
      found.worst_ulp = error;
      found.worst_at = t;
    }
    if (got != oracle::exp2_of(t)) ++found.not_the_oracle;
    ++found.arguments;
  }
  return found;
}

TEST(Exp2Exhaustive, WorstErrorOverMinus125To0) {
  std::array<Findings, 2> halves;
  std::thread other([&] { halves[1] = measure(kMinusZero + 1); });
  halves[0] = measure(kMinusZero);
  other.join();
  const Findings& worst = std::max(halves[0], halves[1], [](const Findings& a, const Findings& b) {
    return a.worst_ulp < b.worst_ulp;
  });
  EXPECT_EQ(halves[0].arguments + halves[1].arguments, 1'123'680'257);
  EXPECT_EQ(std::llround(worst.worst_ulp * 1e6), 948'256) << "at " << worst.worst_at;
  EXPECT_EQ(halves[0].not_the_oracle + halves[1].not_the_oracle, 0);
}

TEST(Exp2Exhaustive, NothingBelowMinus125) {
  std::int64_t others = 0;
  for (std::uint64_t bits = kMinus125 + 1; bits <= kMinusInfinity; ++bits) {
    const float value = exp2_contract(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    others += std::bit_cast<std::uint32_t>(value) == 0 ? 0 : 1;
  }
  EXPECT_EQ(others, 0);
}

TEST(Exp2Exhaustive, NanGivesNan) {
  std::int64_t numbers = 0;
  for (std::uint64_t bits = kMinusInfinity + 1; bits <= kLast; ++bits) {
    const auto word = static_cast<std::uint32_t>(bits);
    numbers += std::isnan(exp2_contract(std::bit_cast<float>(word))) ? 0 : 1;
    numbers += std::isnan(exp2_contract(std::bit_cast<float>(word ^ kMinusZero))) ? 0 : 1;
  }
  EXPECT_EQ(numbers, 0);
}

}  // namespace
}  // namespace zerodiff::reference
