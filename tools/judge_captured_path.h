// One captured path, judged: its outputs against the reference, what explains their differences,
// and its fp8 tensors and claims against the contract.
#pragma once

#include <string>

#include "compare/allowed_choices.h"
#include "compare/report.h"
#include "fixtures/capture_attributes.h"
#include "fixtures/layer_call.h"

namespace zerodiff::tools {

struct CapturedPath {
  std::string label;  // captured_label: what reports call it
  const Outputs* outputs = nullptr;
  const Attributes* claims = nullptr;
  bool gates = false;
};

// Adds to the report: comparisons, claims and fp8 tensors of the path. `reference` holds what the
// reference made of the call under the contract in force, `allowed` what else is legal. Returns
// whether an element was compared.
bool judge_captured_path(const LayerCall& call, const Outputs& reference, const CapturedPath& path,
                         const compare::AllowedChoices& allowed, int threads,
                         compare::CaseReport& report);

}  // namespace zerodiff::tools
