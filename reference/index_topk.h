// Stage index_topk: the best blocks of each token and kv head (numerics.md section 11).
#pragma once

#include "fixtures/layer_call.h"

namespace zerodiff::reference {

// index_score is [nkv, num_tokens, blocks] float32 as index_score() makes it. Returns topk_index,
// [nkv, num_tokens, topk] int32: block ids by (score descending, id ascending), then -1.
// The score of a forced or NaN block is replaced here, not in the tensor.
Tensor index_topk(const LayerCall& call, const Tensor& index_score);

}  // namespace zerodiff::reference
