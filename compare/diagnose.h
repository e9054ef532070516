// Diagnosis of the insertion outputs of one path (docs/verdicts.md, section 4): hypotheses,
// structural search, pattern.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compare/diagnosis.h"
#include "compare/hypothesis.h"
#include "fixtures/layer_call.h"
#include "reference/choices.h"

namespace zerodiff::compare {

struct DiagnosedTensor {
  Diagnosis diagnosis;
  // What `diagnosis.best` stands for, to evaluate single elements with. Absent if nothing explains
  // the tensor, and for misplaced rows.
  std::optional<Hypothesis> winner;
};

struct DiagnosisOptions {
  // The choices per build that `expected` was made under: those of the contract in force, and the
  // legal ones that the path was found to need.
  reference::Choices choices;
  int threads = 0;  // 0: one for each core; results do not depend on it
};

// One for each tensor (q, k, v, index_q, index_k) that both sides have and that differs in counted
// elements; padding rows of q and index_q do not count. Both sides must have
// passed check_outputs for this call.
//
// Takes at most 10 s for a tensor of 16 M elements on two cores
// (tests/compare/diagnosis_speed_test.cc). Throws Error (kInput) for a graph-safe slot buffer that
// reference::map_slots rejects.
std::vector<DiagnosedTensor> diagnose_tensors(const LayerCall& call, const Outputs& expected,
                                              const Outputs& got, const std::string& path,
                                              const DiagnosisOptions& options = {});

// The diagnoses alone.
std::vector<Diagnosis> diagnose_insertion(const LayerCall& call, const Outputs& expected,
                                          const Outputs& got, const std::string& path,
                                          const DiagnosisOptions& options = {});

}  // namespace zerodiff::compare
