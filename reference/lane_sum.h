// lane_sum128: the canonical sum of 128 values (numerics.md section 0).
#pragma once

#include <array>
#include <span>

#include "fixtures/layer_config.h"

namespace zerodiff::reference {

// Lane l of 32 adds values 4l..4l+3 left to right; then halves are folded 16, 8, 4, 2, 1 apart.
inline float lane_sum128(std::span<const float, kHeadDim> v) {
  std::array<float, 32> p;
  for (std::size_t l = 0; l < 32; ++l) {
    p[l] = ((v[4 * l] + v[4 * l + 1]) + v[4 * l + 2]) + v[4 * l + 3];
  }
  for (std::size_t m = 16; m > 0; m /= 2) {
    for (std::size_t l = 0; l < m; ++l) p[l] = p[l] + p[l + m];
  }
  return p[0];
}

}  // namespace zerodiff::reference
