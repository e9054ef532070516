// Diagnosis of index scores, selections and sparse block tables that are faults (docs/faults.md,
// 1.7): rows that a kernel with one mistake would have left, to the id.
#pragma once

#include <string>
#include <vector>

#include "compare/diagnosis.h"
#include "compare/score_bound.h"
#include "compare/table_check.h"
#include "compare/topk_intervals.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// What a selection was judged on. All must outlive the call.
struct SelectionInputs {
  const Tensor* index_q = nullptr;
  const Tensor* index_cache = nullptr;
  const Tensor* contract = nullptr;  // the reference's selection on them
  int threads = 0;
};

// `check` is check_selection's, with faults. Explanation::of counts rows at fault; a row is explained
// if it has the hypothesis's ids, in any order; contradicted counts rows that are right and have not.
Diagnosis diagnose_selection(const LayerCall& call, const SelectionInputs& inputs,
                             const Tensor& topk_index, const SelectionCheck& check,
                             const std::string& path);

// Scores outside `intervals`, the ones of `inputs` (contract is not read); there is at least one.
// Rows likewise: of [nkv][num_tokens], explained if all their scores are. Rows of scores that carry
// sm_scale * log2(e) must have been divided by it.
Diagnosis diagnose_scores(const LayerCall& call, const SelectionInputs& inputs,
                          const ScoreIntervals& intervals, const Tensor& index_score,
                          const std::string& path);

// `check` is check_table's of `selection`, with faults. Rows likewise, ids in order, with lengths.
Diagnosis diagnose_table(const LayerCall& call, const Tensor& selection, const Tensor& table,
                         const Tensor& context_lens, const TableCheck& check,
                         const std::string& path);

}  // namespace zerodiff::compare
