// EXP2 of numerics.md section 13: 2^t for t <= 0 as a fixed chain of operations.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace zerodiff::reference {

// NaN gives NaN, t < -125 gives +0. At worst 0.948256 ulp from 2^t over every binary32 in [-125,
// 0]. Branch-free, so that loops over it vectorise.
inline float exp2_contract(float t) {
  constexpr float kLeast = -125.0F;
  const float clamped = std::max(kLeast, t);  // also keeps a NaN out of the integer conversion
  const float n = std::nearbyint(clamped);
  const float f = clamped - n;
  float y = 0x1.41d334p-13F;
  y = std::fma(y, f, 0x1.5f456ap-10F);
  y = std::fma(y, f, 0x1.3b2dbcp-7F);
  y = std::fma(y, f, 0x1.c6aed4p-5F);
  y = std::fma(y, f, 0x1.ebfbdap-3F);
  y = std::fma(y, f, 0x1.62e43p-1F);
  y = std::fma(y, f, 0x1p+0F);
  // y lies in [0.7, 1.5] and n in [-125, 0]: the product is normal and adding n to the exponent
  // exact.
  const auto exponent = static_cast<std::uint32_t>(static_cast<std::int32_t>(n)) << 23;
  const float scaled = std::bit_cast<float>(std::bit_cast<std::uint32_t>(y) + exponent);
  const float kept = t < kLeast ? 0.0F : scaled;
  return std::isnan(t) ? t : kept;
}

}  // namespace zerodiff::reference
