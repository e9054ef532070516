// `zerodiff replay`: runs an own path on a capture's call and stores what it made.
#pragma once

#include <filesystem>
#include <string>

#include "fixtures/capture.h"
#include "tools/exit_code.h"
#include "tools/own_path.h"

namespace zerodiff::tools {

struct ReplayCommand {
  std::filesystem::path capture;
  std::string path;              // name of an own path
  std::filesystem::path output;  // may be the capture itself
  OwnPathOptions options;
  ReadOptions read;
};

// Writes the whole file or none. Throws Error: kUsage for an unknown path name or a folder that
// does not exist, kInput for an invalid capture, kInfrastructure if the file cannot be written.
ExitCode run(const ReplayCommand& command);

}  // namespace zerodiff::tools
