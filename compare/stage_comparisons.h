// The judgements of the stages after insertion as comparisons of the report, under the contract in
// force.
#pragma once

#include <string>
#include <vector>

#include "compare/allowed_choices.h"
#include "compare/report.h"
#include "fixtures/capture_attributes.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

struct JudgedPath {
  std::string name;
  const Outputs* outputs = nullptr;
  const Attributes* claims = nullptr;
  bool gates = false;
};

// Appends one comparison, of scope stage and against "reference" (the contract, on the path's own
// inputs), for each stage whose output the path has, with its
// diagnosis if it is a fault; the end-to-end comparisons of those outputs, which are in the list
// already, no longer gate. A claimed accumulator or type of P counts only if it is allowed, and a
// verdict that needs a choice which is not allowed is a fault.
//
// Throws Error (kInput) for a claim that has no meaning.
void add_stage_comparisons(const LayerCall& call, const Outputs& reference, const JudgedPath& path,
                           const AllowedChoices& allowed, int threads,
                           std::vector<Comparison>& comparisons);

}  // namespace zerodiff::compare
