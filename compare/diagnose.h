// Diagnosis of the insertion outputs of one path (docs/verdicts.md, section 4): hypotheses,
// structural search, pattern.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compare/diagnosis.h"
#include "compare/hypothesis.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

struct DiagnosedTensor {
  Diagnosis diagnosis;
  // What `diagnosis.best` stands for, to evaluate single elements with. Absent if nothing explains
  // the tensor, and for misplaced rows.
  std::optional<Hypothesis> winner;
};

// One for each tensor (q, k, v, index_q, index_k) that both sides have and that differs in counted
// elements; padding rows of q and index_q do not count. `expected` is what the contract in force
// gives; where a path needs legal choices, the outputs under these choices. Both sides must have
// passed check_outputs for this call.
//
// Takes at most 10 s for a tensor of 16 M elements on two cores (tests/benchmarks/diagnosis.cc).
// Results do not depend on `threads` (0: one for each core). Throws Error (kInput) for a graph-safe
// slot buffer that reference::map_slots rejects.
std::vector<DiagnosedTensor> diagnose_tensors(const LayerCall& call, const Outputs& expected,
                                              const Outputs& got, const std::string& path,
                                              int threads = 0);

// The diagnoses alone.
std::vector<Diagnosis> diagnose_insertion(const LayerCall& call, const Outputs& expected,
                                          const Outputs& got, const std::string& path,
                                          int threads = 0);

}  // namespace zerodiff::compare
