// The command line of `zerodiff`.
#pragma once

namespace zerodiff::tools {

// Parses, runs and returns the exit code (docs/verdicts.md). Whatever goes wrong becomes one line
// on standard error.
int run_command_line(int argc, const char* const* argv);

}  // namespace zerodiff::tools
