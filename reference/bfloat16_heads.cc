#include "reference/bfloat16_heads.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

#include "reference/lane_sum.h"

namespace zerodiff::reference {
namespace {

constexpr std::uint32_t kHighHalf = 0xFFFF0000U;
constexpr std::size_t kTogether = 16;  // heads whose square roots and divisions share vectors

float low_half(std::uint32_t word) {
  return std::bit_cast<float>(word << 16);
}
float high_half(std::uint32_t word) {
  return std::bit_cast<float>(word & kHighHalf);
}

// The bfloat16 of a value in the high half of the result; the low half is not cleared.
std::uint32_t rounded(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t to_nearest = bits + 0x7FFFU + ((bits >> 16) & 1U);
  return value != value ? bits | 0x400000U : to_nearest;
}

void store_word(float even, float odd, std::size_t j, std::uint16_t* out) {
  const std::uint32_t word = (rounded(even) >> 16) | (rounded(odd) & kHighHalf);
  std::memcpy(out + 2 * j, &word, sizeof word);
}

void decode(const std::uint16_t* bits, SplitHead& head) {
  for (std::size_t j = 0; j < kHeadWords; ++j) {
    std::uint32_t word = 0;
    std::memcpy(&word, bits + 2 * j, sizeof word);
    head.even[j] = low_half(word);
    head.odd[j] = high_half(word);
  }
}

// lane_sum128 of the squares: lane l has words 2l and 2l+1.
float sum_of_squares(const SplitHead& head) {
  using detail::Eight;
  // Lanes 8g .. 8g+7 in the order 0 1 4 5 2 3 6 7.
  const auto lanes = [&](std::size_t g) {
    const auto square = [](Eight x) { return x * x; };
    const Eight even_low = square(detail::load_eight(head.even.data() + 16 * g));
    const Eight even_high = square(detail::load_eight(head.even.data() + 16 * g + 8));
    const Eight odd_low = square(detail::load_eight(head.odd.data() + 16 * g));
    const Eight odd_high = square(detail::load_eight(head.odd.data() + 16 * g + 8));
    const Eight first = __builtin_shufflevector(even_low, even_high, 0, 2, 8, 10, 4, 6, 12, 14);
    const Eight second = __builtin_shufflevector(odd_low, odd_high, 0, 2, 8, 10, 4, 6, 12, 14);
    const Eight third = __builtin_shufflevector(even_low, even_high, 1, 3, 9, 11, 5, 7, 13, 15);
    const Eight fourth = __builtin_shufflevector(odd_low, odd_high, 1, 3, 9, 11, 5, 7, 13, 15);
    return ((first + second) + third) + fourth;
  };
  const Eight p = (lanes(0) + lanes(2)) + (lanes(1) + lanes(3));
  return ((p[0] + p[2]) + (p[4] + p[6])) + ((p[1] + p[3]) + (p[5] + p[7]));
}

struct Rotated {
  float low;
  float high;
};

// z of the pairs, then of the dims past them, as words. `rotate(low, high, cos, sin)`.
template <class Rotate>
void finish(const SplitHead& x, float r, const SplitHead& weight, const SplitRopeRow& rope,
            std::uint16_t* __restrict out, Rotate rotate) {
  const auto half = static_cast<std::size_t>(rope.half) / 2;
  const auto even = [&](std::size_t j) { return (x.even[j] * r) * weight.even[j]; };
  const auto odd = [&](std::size_t j) { return (x.odd[j] * r) * weight.odd[j]; };
  for (std::size_t j = 0; j < half; ++j) {
    const Rotated e = rotate(even(j), even(j + half), rope.cos.even[j], rope.sin.even[j]);
    const Rotated o = rotate(odd(j), odd(j + half), rope.cos.odd[j], rope.sin.odd[j]);
    store_word(e.low, o.low, j, out);
    store_word(e.high, o.high, j + half, out);
  }
  for (std::size_t j = 2 * half; j < kHeadWords; ++j) store_word(even(j), odd(j), j, out);
}

void finish(const SplitHead& x, float r, const SplitHead& weight, const SplitRopeRow& rope,
            RopeContraction contraction, std::uint16_t* out) {
  switch (contraction) {
    case RopeContraction::fma_cos:
      finish(x, r, weight, rope, out, [](float a, float b, float c, float s) {
        return Rotated{std::fma(a, c, -(b * s)), std::fma(b, c, a * s)};
      });
      break;
    case RopeContraction::separate:
      finish(x, r, weight, rope, out, [](float a, float b, float c, float s) {
        return Rotated{a * c - b * s, b * c + a * s};
      });
      break;
    case RopeContraction::fma_sin:
      finish(x, r, weight, rope, out, [](float a, float b, float c, float s) {
        return Rotated{std::fma(-b, s, a * c), std::fma(a, s, b * c)};
      });
      break;
  }
}

}  // namespace

SplitHead split_head(ConstHeadSpan values) {
  SplitHead result;
  for (std::size_t j = 0; j < kHeadWords; ++j) {
    result.even[j] = values[2 * j];
    result.odd[j] = values[2 * j + 1];
  }
  return result;
}

SplitRopeRow split_rope_row(const RopeRow& rope) {
  SplitRopeRow result;
  result.half = rope.half;
  for (std::size_t j = 0; j < static_cast<std::size_t>(rope.half) / 2; ++j) {
    result.cos.even[j] = rope.cos[2 * j];
    result.cos.odd[j] = rope.cos[2 * j + 1];
    result.sin.even[j] = rope.sin[2 * j];
    result.sin.odd[j] = rope.sin[2 * j + 1];
  }
  return result;
}

bool fits_bfloat16_heads(const Choices& choices) {
  return choices.sumsq_order == SumsqOrder::lane_sum128 && !choices.norm_materialised;
}

void rotate_bfloat16_heads(std::span<const std::uint16_t> bits, const SplitHead& one_plus_weight,
                           const SplitRopeRow& rope, float eps, const Choices& choices,
                           std::span<std::uint16_t> out) {
  constexpr auto kElements = static_cast<std::size_t>(kHeadDim);
  assert(bits.size() == out.size() && bits.size() % kElements == 0);
  assert(fits_bfloat16_heads(choices));
  std::array<SplitHead, kTogether> heads;
  std::array<float, kTogether> factors;
  for (std::size_t start = 0; start < bits.size(); start += kTogether * kElements) {
    const std::size_t count = std::min(kTogether, (bits.size() - start) / kElements);
    for (std::size_t h = 0; h < count; ++h) {
      decode(bits.data() + start + h * kElements, heads[h]);
      factors[h] = sum_of_squares(heads[h]);
    }
    reciprocal_rms(std::span(factors).first(count), eps, choices.rsqrt_ulp);
    for (std::size_t h = 0; h < count; ++h) {
      finish(heads[h], factors[h], one_plus_weight, rope, choices.rope_contraction,
             out.data() + start + h * kElements);
    }
  }
}

}  // namespace zerodiff::reference
