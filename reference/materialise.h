// Materialisation of q and index_q (numerics.md section 5): the rows that leave the insertion
// stages as tensors of their own.
#pragma once

#include <cstdint>
#include <vector>

#include "fixtures/layer_call.h"
#include "reference/bfloat16_heads.h"
#include "reference/choices.h"
#include "reference/qk_norm_rope.h"

namespace zerodiff::reference {

// q of a call's rows, which must outlive it. Const and thread-safe.
class QRows {
 public:
  QRows(const LayerCall& call, const Choices& choices, const QkNormRope& stage);

  // Writes row `t` of `q` ([T, nq*128], model dtype). `scratch` is overwritten.
  void materialise(std::int64_t t, std::vector<float>& scratch, Tensor& q) const;

  // Asks for the memory that row `t` reads, so that it is near when the row's turn comes.
  void prefetch(std::int64_t t) const;

 private:
  const QkNormRope* stage_;
  Choices choices_;
  float eps_;
  SplitHead one_plus_weight_;
  bool in_words_;  // bfloat16, and choices under which the short way is the same
};

// Writes row `t` of `index_q` ([T, niq*128]): the model dtype, or fp8 codes, saturating and unit
// scale, from fp32 or from the model dtype as index_q_from says.
void materialise_index_q(const LayerCall& call, const Choices& choices, const RotatedRow& row,
                         std::int64_t t, Tensor& index_q);

}  // namespace zerodiff::reference
