// Stage sparse_attention: attention over the pages that a sparse block table lists (numerics.md
// section 13).
#pragma once

#include "fixtures/layer_call.h"
#include "reference/sparse_block_table.h"

namespace zerodiff::reference {

// q is [T, nq*128] in the model dtype; k_pool and v_pool are the pools after insertion (the same
// kv_cache with block_contiguous storage); the table as sparse_block_table() makes it.
// Returns attn_output, [num_tokens, nq, 128] in the model dtype; +0 for a row without blocks.
// threads: 0 means one for each core; the result does not depend on it.
Tensor sparse_attention(const LayerCall& call, const Tensor& q, const Tensor& k_pool,
                        const Tensor& v_pool, const SparseBlockTable& table, int threads = 0);

}  // namespace zerodiff::reference
