// The search for legal choices under which a path's insertion outputs are the contract's bits
// (docs/verdicts.md, section 1; numerics.md section 14).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compare/allowed_choices.h"
#include "compare/report.h"
#include "fixtures/layer_call.h"
#include "reference/choices.h"

namespace zerodiff::compare {

struct InsertionExplanation {
  reference::Choices choices;  // per build; rsqrt_ulp and sumsq_order are per head and not set
  std::map<std::string, LegalReport, std::less<>> outputs;  // by name
};

// Solves the choices per build once for the path and the norm factor once for each head.
//
// Among the allowed combinations the path's is the one that explains most tensors completely, first
// of those that are the contract's bits, then of all (q, index_q, K, V, index K); then the one that
// leaves the fewest heads unexplained; then the one with the fewest departures from the contract,
// where each choice of another value and each head whose r had to be moved is one. Heads that are already the contract's bits are looked at only
// under other choices than the contract's.
//
// `contract`: the insertion outputs under the contract in force, contract_choices(allowed). Results
// do not depend on `threads`. Both sides must have passed check_outputs for this call; outputs that
// either lacks are left out. Throws Error (kInput) for a graph-safe slot buffer that
// reference::map_slots rejects.
InsertionExplanation explain_insertion(const LayerCall& call, const Outputs& contract,
                                       const Outputs& got, const AllowedChoices& allowed,
                                       int threads = 0);

// Judges the comparisons of one path with the contract's outputs that are `different`: the search
// makes outputs of the insertion stages `legal` or a `fault`. The others stay as they are. Does
// nothing, and costs nothing, if none of them differs. Returns the choices of the path.
reference::Choices judge_insertion(const LayerCall& call, const Outputs& contract,
                                   const Outputs& got, const AllowedChoices& allowed,
                                   std::vector<Comparison>& comparisons, int threads = 0);

// "rope_contraction separate, rsqrt in 12 heads": what an output was explained with, in one line.
std::string summary(const LegalReport& report);

}  // namespace zerodiff::compare
