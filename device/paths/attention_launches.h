// The launches of the stages after insertion: index_score, index_topk, sparse_block_table and
// sparse_attention, of either path.
#pragma once

#include "device/paths/attention_options.h"
#include "device/paths/path_launches.h"
#include "fixtures/layer_call.h"

namespace zerodiff::device {

// Appends the stages of `options` to a list that holds what the first of them reads, under the
// names of Outputs: after the insertion stages all of them can follow, on what insertion leaves.
// Adds their results topk_index, sparse_block_table, sparse_context_lens, attn_output and, if kept,
// index_score. With skip_index_branch the selection is call.topk_index, which is then a result,
// too.
//
// Does nothing unless has_selection(call) (attention_buffers.h). `call` is a valid one
// (fixtures/layer_call_checks.h) and must outlive the list. Grids depend on shapes alone, never on
// num_tokens or on metadata, so that a graph may replay the list with other contents.
void append_attention(PathLaunches& launches, const LayerCall& call, PathKind kind,
                      const AttentionOptions& options = {});

}  // namespace zerodiff::device
