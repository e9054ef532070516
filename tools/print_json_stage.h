// The judgement of a stage as a JSON value. Heavy, like json_values.h: for printers' .cc files only.
#pragma once

#include "compare/stage_report.h"
#include "tools/json_values.h"

namespace zerodiff::tools {

// "stage" of docs/report.schema.json.
Json stage_json(const compare::StageReport& report);

}  // namespace zerodiff::tools
