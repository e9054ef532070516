#include "compare/stage_comparisons.h"

#include <algorithm>
#include <utility>

#include "compare/attention_stages.h"
#include "compare/stage_diagnosis.h"

namespace zerodiff::compare {
namespace {

AccumulateRules rules_of(const JudgedPath& path, const AllowedChoices& allowed) {
  AccumulateRules rules = accumulate_rules(*path.claims, "/outputs/" + path.name);
  if (rules.accumulator && !allowed.allows("accumulate", name_of(*rules.accumulator))) {
    rules.accumulator.reset();
  }
  if (!allowed.allows("p_dtype", name_of(rules.p_dtype))) rules.p_dtype = PDtype::model_dtype;
  rules.exact_topk_order = !allowed.allows("topk_order", "any");
  return rules;
}

// The first choice that the verdict needs and that is not allowed; empty if there is none.
std::string forbidden_choice(const StageJudgement& judgement, const AllowedChoices& allowed) {
  const bool free_sum = judgement.verdict == Verdict::bounded;
  if (free_sum && !allowed.allows("accumulate", judgement.accumulator)) {
    return "accumulate " + judgement.accumulator;
  }
  for (const std::string& id : judgement.choices) {
    if (id == "accumulate") continue;
    const char* const value = id == "score_scale" ? "sm_scale_log2e" : "any";
    if (!allowed.allows(id, value)) return id + " " + value;
  }
  return "";
}

Comparison comparison_of(const StageJudgement& judgement, bool gates) {
  Comparison comparison;
  comparison.output = judgement.output;
  comparison.path = judgement.path;
  comparison.against = "reference";
  comparison.scope = Scope::stage;
  comparison.verdict = judgement.verdict;
  comparison.gates = gates;
  comparison.total.elements = judgement.judged;
  comparison.total.mismatches = judgement.faults;
  if (judgement.headroom) comparison.total.max_abs_error = judgement.headroom->max_abs_error;
  comparison.note = judgement.note;
  comparison.judged_stage = judgement;
  return comparison;
}

bool belongs_to(const Comparison& comparison, const StageJudgement& judgement) {
  return comparison.output == judgement.output ||
         (judgement.stage == "sparse_block_table" && comparison.output == "sparse_context_lens");
}

}  // namespace

void add_stage_comparisons(const LayerCall& call, const Outputs& reference, const JudgedPath& path,
                           const AllowedChoices& allowed, int threads,
                           std::vector<Comparison>& comparisons) {
  StageOptions options;
  options.rules = rules_of(path, allowed);
  options.threads = threads;
  std::vector<StageJudgement> judgements =
      judge_attention_stages(call, reference, *path.outputs, path.name, options);
  const std::vector<Diagnosis> diagnoses =
      diagnose_attention_stages(call, reference, *path.outputs, judgements, options);
  for (StageJudgement& judgement : judgements) {
    if (judgement.verdict == Verdict::absent) continue;
    for (Comparison& comparison : comparisons) {
      if (comparison.scope == Scope::end_to_end && belongs_to(comparison, judgement)) {
        comparison.gates = false;
      }
    }
    const std::string forbidden = forbidden_choice(judgement, allowed);
    if (!forbidden.empty() && judgement.verdict != Verdict::fault) {
      judgement.verdict = Verdict::fault;
      judgement.note = "needs " + forbidden + ", which the contract in force does not allow";
    }
    Comparison comparison = comparison_of(judgement, path.gates);
    for (const Diagnosis& diagnosis : diagnoses) {
      const bool table =
          judgement.stage == "sparse_block_table" && diagnosis.output == "sparse_context_lens";
      if (diagnosis.output == judgement.output || table) {
        comparison.diagnoses.push_back(diagnosis);
      }
    }
    comparisons.push_back(std::move(comparison));
  }
}

}  // namespace zerodiff::compare
