// Heads of bfloat16 rows through norm, RoPE and rounding in two passes, without the fp32 z between
// them: the same bits as QkNormRope::rotate_row and to_model_dtype, for the many heads of q.
//
// A head is held as its 64 words of two dims: the even dims are the words' low halves, the odd ones
// their high halves. So decoding is a shift and a mask, encoding likewise, and no element moves.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "reference/choices.h"
#include "reference/qk_norm_rope.h"

namespace zerodiff::reference {

inline constexpr std::size_t kHeadWords = static_cast<std::size_t>(kHeadDim) / 2;

// Values of 128 dims (or of fewer, from the first), even and odd ones apart.
struct SplitHead {
  alignas(64) std::array<float, kHeadWords> even;
  alignas(64) std::array<float, kHeadWords> odd;
};

SplitHead split_head(ConstHeadSpan values);

// cos and sin of one position, split; half as in RopeRow.
struct SplitRopeRow {
  SplitHead cos;
  SplitHead sin;
  std::int64_t half = 0;
};
SplitRopeRow split_rope_row(const RopeRow& rope);

// Whether the choices leave the sum of squares in the contract's order, and y unrounded.
bool fits_bfloat16_heads(const Choices& choices);

// bits: whole heads; out: MD(z) of them, as many. The two may not overlap. `choices` must fit.
void rotate_bfloat16_heads(std::span<const std::uint16_t> bits, const SplitHead& one_plus_weight,
                           const SplitRopeRow& rope, float eps, const Choices& choices,
                           std::span<std::uint16_t> out);

}  // namespace zerodiff::reference
