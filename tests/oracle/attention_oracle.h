// Sparse attention, and all stages after insertion: written a second time, slow and scalar, one
// element at a time, from docs/numerics.md sections 0, 1, 6 to 8 and 10 to 13 alone. What
// reference/ is tested against. Calls must be valid and have their attention metadata.
#pragma once

#include "fixtures/layer_call.h"

namespace zerodiff::oracle {

// EXP2 of section 13, for t <= 0 or NaN.
float exp2_of(float t);

// Section 13: [num_tokens, nq, 128] in the model dtype. Reads q, the K/V pools, sparse_block_table
// and sparse_context_lens of `inputs`. Throws std::out_of_range for a table entry of another head
// or outside the pool.
Tensor sparse_attention(const LayerCall& call, const Outputs& inputs);

// Sections 10 to 13 on the q, index_q and caches that `insertion` holds: index_score, topk_index,
// sparse_block_table, sparse_context_lens and attn_output, and nothing else. With
// skip_index_branch there are no scores and the selection is the call's; without one, nothing.
Outputs run_attention(const LayerCall& call, const Outputs& insertion);

}  // namespace zerodiff::oracle
