// Two selections of blocks held against each other: which ids entered and left, and by how little
// it was decided (numerics.md section 11). It explains; the verdict is the exact comparison's.
#pragma once

#include "compare/report.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// Counts every row that differs and describes the first four, in the order of the tensor: kv heads,
// then tokens. `expected` and `got` are topk_index, [nkv, num_tokens, topk] int32, with any content.
// `scores` is the index_score that the expected side selected from, [nkv, num_tokens, blocks]
// float32; an absent tensor leaves out scores and gaps.
TopkDifference topk_difference(const LayerCall& call, const Tensor& expected, const Tensor& got,
                               const Tensor& scores);

}  // namespace zerodiff::compare
