// One stage of a call by itself, on inputs that a path has stored: the flow behind
// `verify --stage`.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "compare/report.h"
#include "device/backend.h"
#include "fixtures/layer_call.h"
#include "tools/own_path.h"

namespace zerodiff::tools {

struct StageSelection {
  std::string name;  // as docs/architecture.md calls it
  // The path whose outputs feed it, as captured_label says; empty for a stage that reads the call
  // alone.
  std::string inputs;
};

// Throws Error (kUsage) for a name that is no stage, for a stage whose inputs no path can store,
// and for --stage-inputs with qk_norm_rope, which reads nothing but the call.
StageSelection parse_stage_selection(std::string_view name, std::string_view inputs);

// What a path must hold for the stage, and what the stage makes of it:
//   qk_norm_rope         nothing                                           q, index_q
//   index_score          index_q, index_cache                              index_score
//   index_topk           index_score                                       topk_index
//   sparse_block_table   topk_index (with skip_index_branch the call's)    sparse_block_table,
//                                                                          sparse_context_lens
//   sparse_attention     q, caches, sparse_block_table, sparse_context_lens   attn_output
struct StageInputs {
  const Outputs& outputs;  // of the path
  std::string where;       // for messages: "/outputs/atom_fused"
};

// Runs the stage through the reference and both own device paths and adds to the report: their rows,
// of scope "stage", all of which gate; and faults that the device's checks found. Throws Error
// (kInput) for a call without the stage and for inputs that the path lacks or that do not fit.
void judge_stage(const LayerCall& call, const StageSelection& stage, const StageInputs& inputs,
                 device::Backend& backend, int threads,
                 const std::function<void(const std::string&)>& on_step,
                 compare::CaseReport& report);

}  // namespace zerodiff::tools
