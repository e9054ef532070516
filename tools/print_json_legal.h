// What explains an output, and what a path claims, as JSON (docs/report.schema.json).
#pragma once

#include <vector>

#include "compare/report.h"
#include "tools/json_values.h"

namespace zerodiff::tools {

Json legal_json(const compare::LegalReport& report);
Json claims_json(const std::vector<compare::ClaimReport>& claims);

}  // namespace zerodiff::tools
