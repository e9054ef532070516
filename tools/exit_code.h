// Exit codes of the `zerodiff` command (docs/verdicts.md, section 5).
#pragma once

#include <algorithm>

namespace zerodiff::tools {

enum class ExitCode {
  kPassed = 0,          // every case passed
  kFailed = 1,          // a case failed, is mistrusted, or lacks what was asked for
  kBadInput = 2,        // bad usage or input, and nothing selected
  kInfrastructure = 3,  // a crash, a time-out, no memory, a file that cannot be written
};

// Of several cases the most serious one decides: 3 before 2 before 1.
constexpr ExitCode worse_of(ExitCode a, ExitCode b) {
  return std::max(a, b);
}

}  // namespace zerodiff::tools
