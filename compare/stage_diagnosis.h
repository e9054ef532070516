// Diagnoses of the stages after insertion that judge_attention_stages() called faults.
#pragma once

#include <string>
#include <vector>

#include "compare/attention_stages.h"
#include "compare/diagnosis.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// One for each judgement that is a fault, in their order; `reference`, `path` and `options` as they
// were judged with. A stage is diagnosed on the inputs that it was judged on.
std::vector<Diagnosis> diagnose_attention_stages(const LayerCall& call, const Outputs& reference,
                                                 const Outputs& path,
                                                 const std::vector<StageJudgement>& judgements,
                                                 const StageOptions& options = {});

}  // namespace zerodiff::compare
