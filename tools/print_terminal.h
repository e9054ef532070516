// The report of `verify` and `diff` for people: one block a capture, and a last line that sums up.
#pragma once

#include <span>
#include <string>

#include "tools/case_result.h"
#include "tools/terminal.h"

namespace zerodiff::tools {

// The block of one capture: header, table of comparisons with the worst mismatch of each, slot map,
// fp8 contract, warnings, what was not exercised, outcome, and how to re-run it unless it passed.
// Ends with an empty line.
std::string print_case(const CaseResult& result, const Painter& paint);

// "10 passed, 0 failed", with every other outcome that occurred. Ends with a newline.
std::string print_summary(std::span<const CaseResult> cases, const Painter& paint);

}  // namespace zerodiff::tools
