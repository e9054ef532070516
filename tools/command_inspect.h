// `zerodiff inspect`: what a capture holds.
#pragma once

#include <filesystem>

#include "fixtures/capture.h"
#include "tools/exit_code.h"
#include "tools/output_options.h"

namespace zerodiff::tools {

struct InspectCommand {
  std::filesystem::path capture;
  ReadOptions read;
  OutputOptions output;
};

// Throws Error: kInput for an invalid capture, kInfrastructure if a report cannot be written.
ExitCode run(const InspectCommand& command);

}  // namespace zerodiff::tools
