// reference/exp2.h: EXP2 of numerics.md section 13 at its edges, and against MPFR and the oracle.
#include "reference/exp2.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <bit>
#include <limits>
#include <random>
#include <vector>

#include "tests/oracle/attention_oracle.h"

namespace zerodiff::reference {
namespace {

std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

struct KnownValue {
  float t;
  float value;
};
void PrintTo(const KnownValue& known, std::ostream* out) {
  *out << known.t;
}

class Exp2Known : public testing::TestWithParam<KnownValue> {};

TEST_P(Exp2Known, HasTheContractsBits) {
  EXPECT_EQ(bits_of(exp2_contract(GetParam().t)), bits_of(GetParam().value));
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Powers of two are exact; both ties go to the even integer, so 2^-0.5 and 2^-1.5 differ by more
// than their exponent; below -125 there is nothing.
INSTANTIATE_TEST_SUITE_P(
    , Exp2Known,
    testing::Values(KnownValue{0.0F, 1.0F}, KnownValue{-0.0F, 1.0F}, KnownValue{-1.0F, 0.5F},
                    KnownValue{-24.0F, 0x1p-24F}, KnownValue{-124.0F, 0x1p-124F},
                    KnownValue{-125.0F, 0x1p-125F}, KnownValue{-0x1.f40002p+6F, 0.0F},
                    KnownValue{-126.0F, 0.0F}, KnownValue{-149.0F, 0.0F}, KnownValue{-1e30F, 0.0F},
                    KnownValue{-std::numeric_limits<float>::max(), 0.0F},
                    KnownValue{-kInfinity, 0.0F}, KnownValue{-0x1p-149F, 1.0F},
                    KnownValue{-0x1p-126F, 1.0F}, KnownValue{-0x1p-30F, 1.0F},
                    KnownValue{-0.5F, 0x1.6a09e8p-1F}, KnownValue{-1.5F, 0x1.6a09e6p-2F},
                    KnownValue{-2.5F, 0x1.6a09e8p-3F}, KnownValue{-0.25F, 0x1.ae89fap-1F}));

TEST(Exp2, NanGivesNan) {
  for (const std::uint32_t bits : {0x7F800001U, 0x7FC00000U, 0xFFC00000U, 0xFFFFFFFFU}) {
    EXPECT_TRUE(std::isnan(exp2_contract(std::bit_cast<float>(bits)))) << std::hex << bits;
  }
}

TEST(Exp2, NeverPassesOneAndNeverFalls) {
  float before = exp2_contract(-125.0F);
  for (std::uint32_t bits = bits_of(-125.0F); bits > bits_of(-0.0F) + 4096; bits -= 4096) {
    const float value = exp2_contract(std::bit_cast<float>(bits));
    ASSERT_LE(value, 1.0F) << std::bit_cast<float>(bits);
    // Neighbours of an error below one ulp may change places; values two ulp apart may not.
    ASSERT_GE(value, std::nextafter(before, 0.0F)) << std::bit_cast<float>(bits);
    before = value;
  }
}

// Seeded arguments of every binade, and the neighbours of every integer and every tie.
std::vector<float> sample() {
  std::vector<float> arguments;
  for (int halves = 0; halves >= -250; --halves) {
    const float t = static_cast<float>(halves) / 2;
    arguments.insert(arguments.end(), {t, std::nextafter(t, -kInfinity)});
    if (t < 0) arguments.push_back(std::nextafter(t, 0.0F));
  }
  std::mt19937_64 random(20260801);
  for (int i = 0; i < 100'000; ++i) {
    arguments.push_back(-125.0F * std::ldexp(static_cast<float>(random() >> 40), -24));
    arguments.push_back(
        std::bit_cast<float>(0x80000000U + static_cast<std::uint32_t>(random() % 0x42FA0001U)));
  }
  return arguments;
}

// |got - 2^t| in ulp of 2^t, from 2^t to 100 bits.
double error_in_ulp(mpfr_t exact, mpfr_t difference, float t, float got) {
  mpfr_set_flt(exact, t, MPFR_RNDN);
  mpfr_exp2(exact, exact, MPFR_RNDN);
  mpfr_sub_d(difference, exact, static_cast<double>(got), MPFR_RNDN);
  mpfr_mul_2si(difference, difference, 24 - mpfr_get_exp(exact), MPFR_RNDN);
  return std::fabs(mpfr_get_d(difference, MPFR_RNDN));
}

TEST(Exp2, IsWithinItsErrorOfMpfr) {
  mpfr_t exact;
  mpfr_t difference;
  mpfr_inits2(100, exact, difference, nullptr);
  for (const float t : sample()) {
    if (t < -125) continue;
    EXPECT_LT(error_in_ulp(exact, difference, t, exp2_contract(t)), 0.9482565) << t;
  }
  mpfr_clears(exact, difference, nullptr);
}

TEST(Exp2, EqualsTheOracle) {
  for (const float t : sample()) {
    ASSERT_EQ(bits_of(exp2_contract(t)), bits_of(oracle::exp2_of(t))) << t;
  }
}

}  // namespace
}  // namespace zerodiff::reference
