// The stages after insertion on stored inputs: each stage, or a run of stages, by itself.
#pragma once

#include "device/backend.h"
#include "device/paths/attention_options.h"
#include "device/paths/path_launches.h"
#include "device/paths/run_path.h"
#include "fixtures/layer_call.h"

namespace zerodiff::device {

// Runs stages options.first_stage .. options.last_stage on what `inserted` (the outputs of any
// path) holds, and returns the outputs of these stages alone; nothing unless has_selection(call).
//
// What is needed of `inserted`, and never changed:
//   index_score          index_q, index_cache
//   index_topk           index_score, if it is the first stage
//   sparse_block_table   topk_index, if it is the first stage
//   sparse_attention     q and the K/V caches; sparse_block_table and sparse_context_lens, if it is
//                        the first stage
// With skip_index_branch there are no scores and no selection of one's own; first_stage index_score
// or index_topk then means sparse_block_table, which reads call.topk_index.
//
// `call` must be valid (fixtures/layer_call_checks.h). Throws Error: input for something of
// `inserted` that is missing, has another shape than the call implies, or names blocks or pages
// that there are not (a kernel would read outside of its buffers); infrastructure if the device
// fails.
PathRun run_attention_stages(const LayerCall& call, const Outputs& inserted, PathKind kind,
                             Backend& backend, const AttentionOptions& options = {});

}  // namespace zerodiff::device
