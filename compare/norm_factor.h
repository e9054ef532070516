// The values that a head's norm factor r may take (numerics.md section 14, `rsqrt` and
// `sumsq_order`).
#pragma once

#include <cstdint>

#include "reference/qk_norm_rope.h"

namespace zerodiff::compare {

struct FactorFreedom {
  int ulps = 0;            // W of `rsqrt`
  bool any_order = false;  // of the sum of squares: γ = 127 * 2^-24, else 0
};

// r of the contract, and how many steps of binary32 a legal r may stand below and above it. An r of
// 0, infinity or NaN, which every unit gives exactly, is the only one.
struct NormFactor {
  float r = 0;
  std::int32_t below = 0;
  std::int32_t above = 0;

  float moved(std::int32_t steps) const;
};

// Only r: no freedom yet.
NormFactor contract_factor(reference::ConstHeadSpan x, float eps);

// Adds the freedom: r lies within W ulp of [1/sqrt(u(1+γ)), 1/sqrt(u(1-γ))].
//
// u is taken from the exact sum of the squares, about which every order of the 127 additions stays
// within γ, and the interval holds the contract's own r. Its ends are evaluated in binary64 and
// rounded to the nearest binary32; they are W steps wider, on both sides, than that.
void widen(NormFactor& factor, reference::ConstHeadSpan x, float eps, const FactorFreedom& freedom);

}  // namespace zerodiff::compare
