// Attention as kernels of other hands compute it, one query head at a time: tiles with a running
// maximum, splits that are merged, sums in various orders. Scalar; of the reference it uses the
// number formats alone. Every legal shape must stay within the bound; the faults must leave it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <ostream>
#include <vector>

#include "compare/accumulate_rules.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

using HeadValues = std::array<float, 128>;

// K and V of the live tokens of one row, as a conforming reader sees them.
struct RowTokens {
  std::vector<HeadValues> k;
  std::vector<HeadValues> v;
};

enum class SumOrder : std::uint8_t {
  in_order,
  reversed,
  pairwise,   // a tree
  truncated,  // groups of 16 aligned to their largest exponent and cut to 24 bits
};

struct SoftmaxKernel {
  const char* name = "";
  std::size_t tile = 64;  // tokens
  std::size_t splits = 1;
  SumOrder order = SumOrder::in_order;
  bool fused = true;         // products added by fma
  bool fused_scale = false;  // exp2(fma(dot, C, -m C)) instead of exp2(dot * C - m * C)
  bool natural = false;      // exp(x) by way of log2(e)
  int exp2_ulp = 0;          // added to every exponential, alternating its sign
  PDtype p_dtype = PDtype::model_dtype;
  float p_range = 256;       // what fp8 weights are scaled by
  bool log_sum_exp = false;  // splits are normalised and merged by their logarithms
  bool normalise_late = true;

  // Faults.
  bool forget_a_rescale = false;  // the last one of the first split that has one
  bool forget_merge_weight = false;
  float scale_factor = 1;       // of sm_scale
  std::size_t dead_in_sum = 0;  // dead tokens of score 0 in the denominator
};
inline void PrintTo(const SoftmaxKernel& kernel, std::ostream* out) {
  *out << kernel.name;
}

// Softmax(q K) V; binary32 before the rounding to the model dtype.
HeadValues run(const SoftmaxKernel& kernel, const HeadValues& q, const RowTokens& tokens,
               float sm_scale, ElementType model_dtype);

// Tokens of a row of the table that `inputs` holds.
RowTokens row_tokens(const LayerCall& call, const Outputs& inputs, std::int64_t row,
                     std::int64_t kv_head);

// attn_output of the kernel on `inputs` (q, caches, table). `change` may alter a row's tokens
// before they are used; row is the token's, head the kv head.
using ChangeTokens = std::function<void(std::int64_t row, std::int64_t kv_head, RowTokens&)>;
Tensor run(const SoftmaxKernel& kernel, const LayerCall& call, const Outputs& inputs,
           const ChangeTokens& change = {});

}  // namespace zerodiff::compare
