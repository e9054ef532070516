// `zerodiff selftest`: whether a device does what every kernel rests on (device/selftest/).
#pragma once

#include <string>

#include "device/selftest/selftest.h"
#include "tools/exit_code.h"
#include "tools/output_options.h"

namespace zerodiff::tools {

struct SelftestCommand {
  std::string device = "auto";
  int wave_width = 32;
  int threads = 0;
  OutputOptions output;
};

// kFailed if a check failed. Throws Error: kUsage for no device or an unknown one, kInfrastructure
// for a GPU that is not there.
ExitCode run(const SelftestCommand& command);

// The same report for people and as JSON. `device` is its name.
std::string print_terminal(const device::SelftestReport& report, std::string_view device,
                           const Painter& paint);
std::string print_json(const device::SelftestReport& report, std::string_view device);

}  // namespace zerodiff::tools
