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
  VerifyOptions options;  // its device may be a list, as split_devices takes it
  OutputOptions output;
};

// Judges the captures one after the other, or, on several devices, as many at a time as there are
// devices: what is reported, and in which order, does not depend on that. A capture that cannot be read does not keep the others from
// being judged. Throws Error (kUsage) without captures, (kInfrastructure) if a report cannot be
// written.
ExitCode run(const VerifyCommand& command);

// What one outcome means for the exit code.
ExitCode exit_code_of(compare::Outcome outcome);

}  // namespace zerodiff::tools
