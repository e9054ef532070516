// The reference layer: every stage strung together.
//
// Source of the numbers: docs/numerics.md. Calls must be valid (check_layer_call accepted them).
// Results do not depend on `threads`; 0 means one for each core.
#pragma once

#include "fixtures/layer_call.h"
#include "reference/choices.h"

namespace zerodiff::reference {

// Runs the insertion stages (qk_norm_rope, slot_mapping, reshape_and_cache, index_cache_insert) and
// returns q, index_q, the caches after the call and the index cache. With skip_index_branch there
// is no index_q and no index_cache.
//
// Throws Error (kInput) for a graph-safe slot buffer that sends two scheduled rows to one slot or
// a row outside the K half of the pool.
Outputs run_insertion(const LayerCall& call, const Choices& choices = {}, int threads = 0);

// The same into `outputs`, whose tensors are used again where type and shape already fit.
void run_insertion(const LayerCall& call, Outputs& outputs, const Choices& choices = {},
                   int threads = 0);

struct LayerOptions {
  int threads = 0;
  bool keep_index_score = false;  // index_score is large and optional
};

// Whether the stages after insertion can run: the attention metadata is there and, with
// skip_index_branch, so is an earlier layer's selection.
bool has_selection(const LayerCall& call);

// Runs every stage the call has inputs for: insertion, then index_score, index_topk,
// sparse_block_table and sparse_attention on what insertion left.
Outputs run_layer(const LayerCall& call, const Choices& choices = {},
                  const LayerOptions& options = {});

// The stages after insertion, on the q, index_q and caches that `outputs` holds (those of any
// path); adds topk_index, sparse_block_table, sparse_context_lens, attn_output and, if kept,
// index_score. Does nothing unless has_selection(call).
void run_after_insertion(const LayerCall& call, Outputs& outputs, const LayerOptions& options = {});

}  // namespace zerodiff::reference
