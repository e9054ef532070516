// Stage index_score: how well each visible block of a token's context matches its index query
// (numerics.md section 10).
#pragma once

#include "fixtures/layer_call.h"

namespace zerodiff::reference {

// index_q is [T, niq*128] and index_cache [NB, 128, 128], both as the insertion stages leave them.
// Returns index_score, [nkv, num_tokens, blocks] float32 with blocks = the columns of block_table;
// -inf for blocks that the token does not see, and throughout for empty rows.
// threads: 0 means one for each core; the result does not depend on it.
Tensor index_score(const LayerCall& call, const Tensor& index_q, const Tensor& index_cache,
                   int threads = 0);

}  // namespace zerodiff::reference
