// `zerodiff bench`: how long the own paths take on a device, and what share of a copy that is.
#pragma once

#include <string>

#include "fixtures/capture.h"
#include "tools/bench_call.h"
#include "tools/exit_code.h"
#include "tools/output_options.h"

namespace zerodiff::tools {

struct BenchCommand {
  std::string capture;  // a file, or empty
  std::string shape;    // parse_bench_shape, or empty; exactly one of the two is given
  std::string device;
  int wave_width = 32;
  BenchOptions options;
  ReadOptions read;
  OutputOptions output;
};

// Fails, with nothing measured, for a call whose paths are not the reference to the bit. Throws
// Error (kUsage) without a call, with two, or without a device.
ExitCode run(const BenchCommand& command);

}  // namespace zerodiff::tools
