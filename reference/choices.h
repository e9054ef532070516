// The legal choices of numerics.md sections 6 and 14: what a real kernel may do differently.
// Default-constructed, it is the contract: canonical arithmetic, and for the scale contract
// whatever the call declares. Every reference stage takes one.
#pragma once

#include <optional>

#include "fixtures/layer_config.h"

namespace zerodiff::reference {

enum class RopeContraction { fma_cos, separate, fma_sin };

// Orders of the 128 additions of the sum of squares. `lane_sum128` is the contract's; `pairwise` adds
// neighbours (v[0]+v[1], v[2]+v[3], ...), then neighbours of those sums, level by level.
enum class SumsqOrder { lane_sum128, sequential, pairwise };

struct Choices {
  RopeContraction rope_contraction = RopeContraction::fma_cos;
  // r is moved by that many ulp from the correctly rounded 1/sqrt(u); 0, infinity and NaN, which
  // every unit gives exactly, are not moved.
  int rsqrt_ulp = 0;
  SumsqOrder sumsq_order = SumsqOrder::lane_sum128;
  bool norm_materialised = false;  // y rounded to the model dtype before RoPE

  // Section 6; nullopt: as the call declares.
  std::optional<ScaleOp> scale_op = std::nullopt;
  std::optional<QuantizeFrom> quantize_from = std::nullopt;
  std::optional<Overflow> overflow = std::nullopt;
  std::optional<IndexQFrom> index_q_from = std::nullopt;
};

}  // namespace zerodiff::reference
