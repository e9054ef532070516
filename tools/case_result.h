// What a command found out about one capture: the report, and what only the command line knows.
#pragma once

#include <string>
#include <vector>

#include "compare/report.h"

namespace zerodiff::tools {

struct CaseResult {
  compare::CaseReport report;
  std::string call;                     // describe_call; empty if the capture could not be read
  std::vector<std::string> path_names;  // paths the capture holds, sorted
  // Of these, the ones that gate and of which at least one element was compared. Comparisons alone do
  // not tell: a captured path may have the name of an own one.
  std::vector<std::string> gated_paths;
  bool one_pair = false;  // one path against one other: said once, not in each row
  // Of `verify --stage`: the stage, and the path that fed it unless that was the call alone.
  std::string stage;
  std::string stage_inputs;
  std::string rerun;  // the command line that repeats exactly this case
};

}  // namespace zerodiff::tools
