// Materialisation of q and index_q (numerics.md section 5): the rows that leave the insertion
// stages as tensors of their own.
#pragma once

#include <cstdint>

#include "fixtures/layer_call.h"
#include "reference/choices.h"
#include "reference/qk_norm_rope.h"

namespace zerodiff::reference {

// Writes row `t` of `q` ([T, nq*128], model dtype).
void materialise_q(const RotatedRow& row, std::int64_t t, Tensor& q);

// Writes row `t` of `index_q` ([T, niq*128]): the model dtype, or fp8 codes, saturating and unit
// scale, from fp32 or from the model dtype as index_q_from says.
void materialise_index_q(const LayerCall& call, const Choices& choices, const RotatedRow& row,
                         std::int64_t t, Tensor& index_q);

}  // namespace zerodiff::reference
