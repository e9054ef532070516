// JSON of `zerodiff explain`.
#pragma once

#include <string>

#include "tools/explain_capture.h"

namespace zerodiff::tools {

std::string print_json(const PathExplanation& explanation);

}  // namespace zerodiff::tools
