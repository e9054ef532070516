// Text of `zerodiff explain`.
#pragma once

#include <string>

#include "tools/explain_capture.h"
#include "tools/terminal.h"

namespace zerodiff::tools {

std::string print_explanation(const PathExplanation& explanation, const Painter& paint);

}  // namespace zerodiff::tools
