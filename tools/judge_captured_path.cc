#include "tools/judge_captured_path.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "compare/fp8_contract.h"
#include "compare/legal_search.h"
#include "compare/output_comparison.h"
#include "tools/own_path.h"

namespace zerodiff::tools {
namespace {

using compare::Comparison;

bool any_compared(const std::vector<Comparison>& comparisons) {
  return std::ranges::any_of(comparisons, [](const Comparison& comparison) {
    return comparison.total.elements > 0;
  });
}

void add_fp8_tensors(const LayerCall& call, const CapturedPath& path, int threads,
                     compare::CaseReport& report) {
  for (compare::Fp8TensorReport& tensor :
       compare::fp8_contract_report(call, {{path.label, path.outputs}}, threads).tensors) {
    tensor.gates = path.gates;
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
  compare::judge_insertion(call, reference, *path.outputs, allowed, comparisons, threads);
  // Stages judged on the path's own inputs (scores, selection, attention) add their comparisons
  // here, and explanations of what is a fault come after them.
  std::ranges::move(comparisons, std::back_inserter(report.comparisons));
  add_fp8_tensors(call, path, threads, report);
  return compared;
}

}  // namespace zerodiff::tools
