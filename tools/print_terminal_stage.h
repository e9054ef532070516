// What the judgement of a stage rests on, as text.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compare/stage_report.h"

namespace zerodiff::tools {

// Labels of at most seven characters, each with a line of words.
std::vector<std::pair<std::string, std::string>> describe_stage(const compare::StageReport& report);

}  // namespace zerodiff::tools
