// The part of a case's block that is about the own device paths: zero difference between them, write
// sets, eager against graph-safe, poison, faults.
#pragma once

#include <string>

#include "compare/report.h"
#include "tools/terminal.h"

namespace zerodiff::tools {

// Empty if no device path ran. Faults stand out in red.
std::string print_own_paths(const compare::CaseReport& report, const Painter& paint);

}  // namespace zerodiff::tools
