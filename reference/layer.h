// The reference layer: every stage strung together, token by token.
//
// Source of the numbers: docs/numerics.md. Results do not depend on `threads`.
#pragma once

#include "fixtures/layer_call.h"
#include "reference/choices.h"

namespace zerodiff::reference {

// Runs the insertion stages (qk_norm_rope, slot_mapping, reshape_and_cache, index_cache_insert) of
// a valid call (check_layer_call accepted it) and returns q, index_q, the caches after the call and
// the index cache. With skip_index_branch there is no index_q and no index_cache.
//
// threads: how many threads share the tokens; 0 means one for each core.
// Throws Error (kInput) for a graph-safe slot buffer that sends two scheduled rows to one slot or
// a row outside the K half of the pool.
Outputs run_insertion(const LayerCall& call, const Choices& choices = {}, int threads = 0);

// The same into `outputs`, whose tensors are used again where type and shape already fit.
void run_insertion(const LayerCall& call, Outputs& outputs, const Choices& choices = {},
                   int threads = 0);

}  // namespace zerodiff::reference
