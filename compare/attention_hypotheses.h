// Diagnosis of an attention output that left its bound: kernels that do one thing differently
// (docs/faults.md, 1.1, 1.2, 1.4, 1.7 and 1.8), evaluated with bounds of their own on the rows at
// fault. An element counts as explained if it lies within the hypothesis's bound.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compare/accumulate_rules.h"
#include "compare/attention_bound.h"
#include "compare/attention_check.h"
#include "compare/diagnosis.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// A row of the table as a kernel reads it.
struct AttendedRow {
  std::int64_t row = 0;  // token * nkv + kv head
  std::vector<std::int32_t> folded_ids;
  std::int64_t length = 0;
};

// A kernel with one mistake. What is empty or default is as the contract has it.
struct AttentionHypothesis {
  std::string id;      // a class of docs/faults.md
  std::string detail;  // the mistake in words
  AttentionChange change{};
  std::function<void(LayerCall& reading)> reading = nullptr;  // the scales that pages are read with
  std::function<Tensor(const Tensor& pool, bool is_value)> pool = nullptr;
  std::function<void(AttendedRow& row)> row = nullptr;
  // Dead tokens of score 0 in the denominator: up to a multiple of this many tokens.
  std::int64_t dead_to_multiple_of = 0;
  bool last_resort = false;  // its bound is wide: anything else that explains as much is preferred
};

// All of a call, the more specific before the less.
std::vector<AttentionHypothesis> attention_hypotheses(const LayerCall& call);

struct AttentionDiagnosisOptions {
  AccumulateRules rules{};
  std::int64_t most_rows =
      32;           // that hypotheses are evaluated on, evenly spread over those at fault
  int threads = 0;  // 0: one for each core; results do not depend on it
};

// The rows at fault are those of AttentionCheck::faulty_rows, found with the same inputs and rules;
// not empty. Explanation::of counts the elements outside in the rows that were looked at.
Diagnosis diagnose_attention(const LayerCall& call, const AttentionInputs& inputs,
                             const Tensor& attn_output,
                             const std::vector<std::int64_t>& faulty_rows, const std::string& path,
                             const AttentionDiagnosisOptions& options = {});

}  // namespace zerodiff::compare
