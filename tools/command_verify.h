// `zerodiff verify`: captured paths against the reference.
#pragma once

#include <filesystem>
#include <vector>

#include "tools/exit_code.h"
#include "tools/output_options.h"
#include "tools/verify_capture.h"

namespace zerodiff::tools {

struct VerifyCommand {
  std::vector<std::filesystem::path> captures;
  VerifyOptions options;
  OutputOptions output;
};

// Judges the captures one after the other; one that cannot be read does not keep the others from
// being judged. Throws Error (kUsage) without captures, (kInfrastructure) if a report cannot be
// written.
ExitCode run(const VerifyCommand& command);

// What one outcome means for the exit code.
ExitCode exit_code_of(compare::Outcome outcome);

}  // namespace zerodiff::tools
