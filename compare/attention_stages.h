// The stages after insertion of one path, each judged on that path's own inputs to it
// (docs/verdicts.md section 1): its index_q and index_cache feed its scores and its selection, its
// selection feeds its table, its q, caches and table feed its attention. So a deviation is reported
// once, where it began.
#pragma once

#include <string>
#include <vector>

#include "compare/accumulate_rules.h"
#include "compare/attention_check.h"
#include "compare/report.h"
#include "compare/stage_report.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// One stage of one path.
struct StageJudgement : StageReport {
  std::string path;
  std::string output;                 // "attn_output"; for sparse_block_table both of its outputs
  Verdict verdict = Verdict::absent;  // identical, legal, bounded, fault or absent
  std::string note;                   // one line: why it is absent, or the first fault
};

struct StageOptions {
  AccumulateRules rules{};  // what the path claims and the contract allows
  AttentionCheckOptions attention{};
  int threads = 0;  // 0: one for each core; results do not depend on it
};

// What attention of a path read: the path's own, or what stood in.
struct AttentionSources {
  const Tensor* q = nullptr;
  const Tensor* k_pool = nullptr;
  const Tensor* v_pool = nullptr;
  Tensor table;
  Tensor context_lens;
  std::vector<std::string> borrowed;  // as StageJudgement::borrowed

  AttentionInputs inputs() const { return {q, k_pool, v_pool, &table, &context_lens}; }
};
AttentionSources attention_sources(const LayerCall& call, const Outputs& reference,
                                   const Outputs& path);

// Judges index_score, index_topk, sparse_block_table and sparse_attention, in this order; a stage
// whose output the path lacks is absent. Nothing at all unless reference::has_selection(call).
// Under skip_index_branch the first two are absent and the selection is the call's.
//
// `reference` holds the whole layer's outputs (run_layer; index_score may be left out), `path` any
// subset that passed check_outputs. A stage is identical if its inputs and its output are the
// reference's, to the bit; its bounds are then not evaluated.
std::vector<StageJudgement> judge_attention_stages(const LayerCall& call, const Outputs& reference,
                                                   const Outputs& path,
                                                   const std::string& path_name,
                                                   const StageOptions& options = {});

}  // namespace zerodiff::compare
