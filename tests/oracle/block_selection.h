// Index scores, top-k and the sparse block table, one element at a time (numerics.md sections 10 to
// 12). Calls must be valid and have their attention metadata.
#pragma once

#include <cstdint>

#include "fixtures/layer_call.h"

namespace zerodiff::oracle {

// [nkv, num_tokens, columns of block_table] float32, -inf where a block is not seen.
Tensor index_score(const LayerCall& call, const Tensor& index_q, const Tensor& index_cache);

// [nkv, num_tokens, topk] int32.
Tensor index_topk(const LayerCall& call, const Tensor& index_score);

struct BlockTable {
  Tensor table;         // [num_tokens*nkv, topk*8] int32
  Tensor context_lens;  // [num_tokens*nkv] int32
};
// Throws std::out_of_range for an id of 2^31 or more.
BlockTable sparse_block_table(const LayerCall& call, const Tensor& topk_index);

}  // namespace zerodiff::oracle
