// reference/bfloat16_heads.h against the parts of qk_norm_rope.h it stands for, bit by bit.
#include "reference/bfloat16_heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "reference/number_formats.h"

namespace zerodiff::reference {
namespace {

constexpr auto kElements = static_cast<std::size_t>(kHeadDim);
using Head = std::array<float, kHeadDim>;

struct Case {
  std::int64_t rotary_dim;
  RopeContraction contraction;
  int rsqrt_ulp;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  constexpr std::array<const char*, 3> kContractions{"fma_cos", "separate", "fma_sin"};
  const int ulp = info.param.rsqrt_ulp;
  return "rotary" + std::to_string(info.param.rotary_dim) + "_" +
         kContractions.at(static_cast<std::size_t>(info.param.contraction)) +
         (ulp < 0 ? "_minus" : "_plus") + std::to_string(std::abs(ulp));
}

std::vector<Case> cases() {
  std::vector<Case> result;
  for (std::int64_t rotary_dim = 8; rotary_dim <= kHeadDim; rotary_dim += 8) {
    result.push_back({rotary_dim, RopeContraction::fma_cos, 0});
  }
  for (const std::int64_t rotary_dim : {8, 64, 72, 128}) {
    result.push_back({rotary_dim, RopeContraction::separate, 1});
    result.push_back({rotary_dim, RopeContraction::fma_sin, -2});
  }
  return result;
}

class Bfloat16Heads : public testing::TestWithParam<Case> {
 protected:
  float value() { return std::normal_distribution<float>()(random_); }

  RopeRow random_rope() {
    RopeRow rope{};
    rope.half = GetParam().rotary_dim / 2;
    for (std::size_t i = 0; i < static_cast<std::size_t>(rope.half); ++i) {
      rope.cos.at(i) = from_bfloat16(to_bfloat16(value()));
      rope.sin.at(i) = from_bfloat16(to_bfloat16(value()));
    }
    return rope;
  }

  Head random_weight() {
    Head weight{};
    for (float& w : weight) w = 1 + from_bfloat16(to_bfloat16(value()));
    return weight;
  }

  // Every fourth head has bits of any kind: subnormals, infinities and NaNs among them.
  std::vector<std::uint16_t> random_heads(std::size_t heads) {
    std::vector<std::uint16_t> bits(heads * kElements);
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const bool any = i / kElements % 4 == 3;
      bits[i] = any ? static_cast<std::uint16_t>(random_()) : to_bfloat16(value());
    }
    return bits;
  }

  static std::uint16_t with_one_nan(std::uint16_t bits) {
    return (bits & 0x7FFFU) > 0x7F80U ? std::uint16_t{0x7FC0} : bits;
  }

 private:
  std::mt19937_64 random_{20261201};
};

std::vector<std::uint16_t> one_stage_at_a_time(std::span<const std::uint16_t> bits, Head weight,
                                               const RopeRow& rope, float eps,
                                               const Case& choices) {
  std::vector<std::uint16_t> result(bits.size());
  for (std::size_t start = 0; start < bits.size(); start += kElements) {
    Head head{};
    from_model_dtype(ElementType::bfloat16, bits.subspan(start, kElements), head);
    const float ss = sum_of_squares(head, SumsqOrder::lane_sum128);
    apply_norm(head, reciprocal_rms(ss, eps, choices.rsqrt_ulp), weight);
    apply_rope(head, rope, choices.contraction);
    to_model_dtype(ElementType::bfloat16, head, std::span(result).subspan(start, kElements));
  }
  return result;
}

TEST_P(Bfloat16Heads, EqualOneStageAtATime) {
  constexpr float kEps = 1e-6F;
  Choices choices;
  choices.rope_contraction = GetParam().contraction;
  choices.rsqrt_ulp = GetParam().rsqrt_ulp;
  ASSERT_TRUE(fits_bfloat16_heads(choices));
  for (const std::size_t heads : {1, 15, 16, 17, 40}) {
    const std::vector<std::uint16_t> bits = random_heads(heads);
    const Head weight = random_weight();
    const RopeRow rope = random_rope();
    std::vector<std::uint16_t> got(bits.size());
    rotate_bfloat16_heads(bits, split_head(weight), split_rope_row(rope), kEps, choices, got);
    std::vector<std::uint16_t> expected = one_stage_at_a_time(bits, weight, rope, kEps, GetParam());
    std::ranges::transform(got, got.begin(), with_one_nan);
    std::ranges::transform(expected, expected.begin(), with_one_nan);
    EXPECT_EQ(got, expected) << heads << " heads";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Bfloat16Heads, testing::ValuesIn(cases()), name_of);

TEST(Bfloat16HeadsChoices, OtherSumsAndAMaterialisedNormDoNotFit) {
  EXPECT_FALSE(fits_bfloat16_heads({.sumsq_order = SumsqOrder::sequential}));
  EXPECT_FALSE(fits_bfloat16_heads({.norm_materialised = true}));
}

}  // namespace
}  // namespace zerodiff::reference
