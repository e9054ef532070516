// What a path claims of itself, held against the contract it is judged by.
#pragma once

#include <string>
#include <vector>

#include "compare/allowed_choices.h"
#include "compare/report.h"
#include "fixtures/capture_attributes.h"
#include "fixtures/layer_config.h"

namespace zerodiff::compare {

// One report for each attribute of the path's group, by name. A claim contradicts if the contract
// in force has another value under that name, be it of the call's configuration or a choice of
// numerics.md section 14; it is then allowed only where `allowed` has its value. `accumulator` is
// allowed where `accumulate` has it. An attribute that no contract has is shown and means nothing.
//
// A claim never makes anything legal: outputs are judged by the contract alone.
std::vector<ClaimReport> contract_claims(const LayerConfig& config, const AllowedChoices& allowed,
                                         const Attributes& claims, const std::string& path,
                                         bool gates);

}  // namespace zerodiff::compare
