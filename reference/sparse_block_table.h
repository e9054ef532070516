// Stage sparse_block_table: the pages that attention reads, and how many tokens of them live
// (numerics.md section 12).
#pragma once

#include "fixtures/layer_call.h"

namespace zerodiff::reference {

struct SparseBlockTable {
  Tensor table;         // [num_tokens*nkv, topk*8] int32: phys_page * nkv + h; unused entries 0
  Tensor context_lens;  // [num_tokens*nkv] int32
};

// topk_index is [nkv, num_tokens, topk] int32. Throws Error (kInput) for an entry of 2^31 or more.
SparseBlockTable sparse_block_table(const LayerCall& call, const Tensor& topk_index);

}  // namespace zerodiff::reference
