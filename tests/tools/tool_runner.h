// Runs the built `zerodiff` as a user would.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zerodiff::test {

struct ToolRun {
  int exit_code = -1;  // 128 + the signal's number if a signal ended it
  std::string out;
  std::string err;
  std::int64_t peak_kib = 0;  // resident memory; of the tool or its probe, whichever took more
};

using Environment = std::vector<std::string>;  // "NAME=value", besides the test's own

// Arguments without the program's name. Standard output and error are files.
ToolRun run_tool(const std::vector<std::string>& arguments, const Environment& environment = {});

// The same with standard output going to `file`, which must exist ("/dev/full").
ToolRun run_tool_into(const std::string& file, const std::vector<std::string>& arguments);

// The same with both going to one terminal; `out` holds what the terminal got.
ToolRun run_tool_on_terminal(const std::vector<std::string>& arguments,
                             const Environment& environment = {});

// "fixtures/captured/m3_small_decode_fp8.h5" for "decode_fp8".
std::string captured(const std::string& name);

bool contains(const std::string& text, const std::string& part);
std::vector<std::string> lines_of(const std::string& text);

// What every failing run owes: one line on standard error that begins with "zerodiff: ".
bool is_one_error_line(const std::string& err);

}  // namespace zerodiff::test
