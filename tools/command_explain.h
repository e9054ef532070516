// `zerodiff explain`: what is wrong with the insertion outputs of one path, in the long form.
#pragma once

#include <filesystem>

#include "tools/exit_code.h"
#include "tools/explain_capture.h"
#include "tools/output_options.h"

namespace zerodiff::tools {

struct ExplainCommand {
  std::filesystem::path capture;
  ExplainOptions options;
  OutputOptions output;
};

// Passed whatever it finds: explaining does not judge. Throws Error as explain_capture, and
// (kInfrastructure) if a report cannot be written.
ExitCode run(const ExplainCommand& command);

}  // namespace zerodiff::tools
