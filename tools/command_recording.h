// `zerodiff replay --run DIR` and `zerodiff replay --check DIR`: a recording's launches run again,
// and results that came back held against the recorded ones.
#pragma once

#include <filesystem>
#include <string>

#include "device/recording_check.h"
#include "tools/exit_code.h"
#include "tools/output_options.h"

namespace zerodiff::tools {

struct RunRecordingCommand {
  std::filesystem::path recording;
  std::string device = "auto";
  int wave_width = 32;
  int threads = 0;
};

// Writes the results beside the recording. Throws Error: kInput for a broken recording, kUsage for
// no device or an unknown one, kInfrastructure for a fault in a kernel.
ExitCode run(const RunRecordingCommand& command);

struct CheckRecordingCommand {
  std::filesystem::path recording;
  OutputOptions output;
};

// kFailed if a buffer differs. Throws Error (kInput) for a broken recording and for results that are
// missing or of another size.
ExitCode run(const CheckRecordingCommand& command);

// The same check for people and as JSON. `recording` is its folder.
std::string print_terminal(const device::RecordingCheck& check, const std::string& recording,
                           const Painter& paint);
std::string print_json(const device::RecordingCheck& check, const std::string& recording);

}  // namespace zerodiff::tools
