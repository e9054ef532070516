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
// device: where the own device paths ran, "cpu" if only the reference did.
std::string print_json(std::string_view command, std::string_view device,
                       std::span<const CaseResult> cases);

}  // namespace zerodiff::tools
