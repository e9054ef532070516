// The report of `verify` and `diff` as JSON (docs/report.schema.json).
//
// Numbers that JSON does not have are the strings "inf", "-inf" and "nan"; an ulp distance to or
// from a NaN is "nan". Equal reports give equal bytes.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tools/case_result.h"

namespace zerodiff::tools {

// One JSON document, with a final newline. `command` is "verify" or "diff".
std::string print_json(std::string_view command, std::span<const CaseResult> cases);

}  // namespace zerodiff::tools
