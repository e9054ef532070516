#include "tools/judge_captured_path.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "compare/contract_claims.h"
#include "compare/diagnose.h"
#include "compare/fp8_contract.h"
#include "compare/fp8_inference.h"
#include "compare/legal_search.h"
#include "compare/output_comparison.h"
#include "compare/stage_comparisons.h"
#include "reference/layer.h"
#include "tools/own_path.h"

namespace zerodiff::tools {
namespace {

using compare::Comparison;

bool any_compared(const std::vector<Comparison>& comparisons) {
  return std::ranges::any_of(
      comparisons, [](const Comparison& comparison) { return comparison.total.elements > 0; });
}

// The output that holds an fp8 tensor: "k" is in k_cache, or in kv_cache.
const Comparison* comparison_of(const std::vector<Comparison>& comparisons,
                                const std::string& tensor) {
  const std::string output = tensor == "index_k"   ? "index_cache"
                             : tensor == "index_q" ? tensor
                                                   : tensor + "_cache";
  const auto found = std::ranges::find_if(comparisons, [&](const Comparison& comparison) {
    const bool joined = comparison.output == "kv_cache" && (tensor == "k" || tensor == "v");
    return comparison.verdict != compare::Verdict::absent &&
           (comparison.output == output || joined);
  });
  return found == comparisons.end() ? nullptr : &*found;
}

// Outputs of the insertion stages that are a fault, by what the legal choices of the path leave.
void add_diagnoses(const LayerCall& call, const CapturedPath& path,
                   const reference::Choices& choices, int threads,
                   std::vector<Comparison>& comparisons) {
  const auto is_fault = [](const Comparison& comparison) {
    return comparison.verdict == compare::Verdict::fault && comparison.legal.has_value();
  };
  if (std::ranges::none_of(comparisons, is_fault)) return;
  const Outputs expected = reference::run_insertion(call, choices, threads);
  for (compare::Diagnosis& diagnosis : compare::diagnose_insertion(
           call, expected, *path.outputs, path.label, {.choices = choices, .threads = threads})) {
    for (Comparison& comparison : comparisons) {
      if (!is_fault(comparison) || comparison.output != diagnosis.output) continue;
      comparison.diagnoses.push_back(diagnosis);
    }
  }
}

// The clauses are the declared contract's. Codes that are right under the contract in force may
// break them.
void add_fp8_tensors(const LayerCall& call, const CapturedPath& path,
                     const std::vector<Comparison>& comparisons, int threads,
                     compare::CaseReport& report) {
  const std::vector<compare::Fp8Inference> inferred =
      compare::infer_fp8_contract(call, {path.label, path.outputs});
  for (compare::Fp8TensorReport& tensor :
       compare::fp8_contract_report(call, {{path.label, path.outputs}}, threads).tensors) {
    const Comparison* output = comparison_of(comparisons, tensor.tensor);
    const bool right = output != nullptr && is_right(output->verdict);
    tensor.gates = path.gates;
    const auto found = std::ranges::find(inferred, tensor.tensor, &compare::Fp8Inference::tensor);
    if (found != inferred.end()) tensor.inference = *found;
    if (right && !tensor.conforms) {
      tensor.gates = false;
      tensor.explained_by = output->legal ? summary(*output->legal) : "the contract in force";
    }
    report.fp8_contract.tensors.push_back(std::move(tensor));
  }
}

}  // namespace

bool judge_captured_path(const LayerCall& call, const Outputs& reference, const CapturedPath& path,
                         const compare::AllowedChoices& allowed, int threads,
                         compare::CaseReport& report) {
  std::vector<Comparison> comparisons =
      compare::compare_outputs(call, reference, std::string(kReferencePath), *path.outputs,
                               path.label, {{.threads = threads}, path.gates});
  const bool compared = any_compared(comparisons);
  const reference::Choices choices =
      compare::judge_insertion(call, reference, *path.outputs, allowed, comparisons, threads);
  compare::add_stage_comparisons(call, reference,
                                 {path.label, path.outputs, path.claims, path.gates}, allowed,
                                 threads, comparisons);
  add_diagnoses(call, path, choices, threads, comparisons);
  std::ranges::move(
      compare::contract_claims(call.config, allowed, *path.claims, path.label, path.gates),
      std::back_inserter(report.claims));
  add_fp8_tensors(call, path, comparisons, threads, report);
  std::ranges::move(comparisons, std::back_inserter(report.comparisons));
  return compared;
}

}  // namespace zerodiff::tools
