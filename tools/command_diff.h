// `zerodiff diff`: two stored paths against each other.
#pragma once

#include "tools/diff_paths.h"
#include "tools/exit_code.h"
#include "tools/output_options.h"

namespace zerodiff::tools {

struct DiffCommand {
  StoredPath expected;
  StoredPath got;
  DiffOptions options;
  OutputOptions output;
};

// Throws Error: kInput for an invalid capture, a path that is not there, calls of different
// configuration, or two paths without an output in common; kInfrastructure if a report cannot be
// written.
ExitCode run(const DiffCommand& command);

}  // namespace zerodiff::tools
