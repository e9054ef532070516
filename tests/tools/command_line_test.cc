// Usage: help, version, wrong command lines, colour.
#include <gtest/gtest.h>

#include <ostream>

#include "tests/fixtures/capture_files.h"
#include "tests/tools/tool_runner.h"

namespace zerodiff::test {
namespace {

TEST(CommandLine, VersionIsOneLine) {
  const ToolRun run = run_tool({"--version"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out, "zerodiff " ZERODIFF_VERSION "\n");
  EXPECT_EQ(run.err, "");
}

TEST(CommandLine, HelpNamesEveryCommandAndTheExitCodes) {
  const ToolRun run = run_tool({"--help"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
  for (const char* part :
       {"verify", "inspect", "explain", "replay", "diff", "Examples:", "Exit codes: 0"}) {
    EXPECT_TRUE(contains(run.out, part)) << part << "\n" << run.out;
  }
}

TEST(CommandLine, EveryCommandHasHelpThatFitsATerminal) {
  for (const char* command : {"verify", "inspect", "explain", "replay", "diff", "devices"}) {
    const ToolRun run = run_tool({command, "--help"});
    EXPECT_EQ(run.exit_code, 0) << command;
    EXPECT_TRUE(contains(run.out, std::string("Usage: zerodiff ") + command)) << run.out;
    for (const std::string& line : lines_of(run.out)) EXPECT_LE(line.size(), 100U) << line;
  }
}

struct UsageCase {
  const char* name;
  std::vector<std::string> arguments;
  const char* message;
};
void PrintTo(const UsageCase& usage, std::ostream* out) {
  *out << usage.name;
}

class WrongUsage : public testing::TestWithParam<UsageCase> {};

TEST_P(WrongUsage, IsOneLineAndExitCode2) {
  const ToolRun run = run_tool(GetParam().arguments);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
  EXPECT_TRUE(contains(run.err, GetParam().message)) << run.err;
}

const std::string kDecode = captured("decode_fp8");

INSTANTIATE_TEST_SUITE_P(
    All, WrongUsage,
    testing::ValuesIn(std::vector<UsageCase>{
        {"no_command", {}, "no command given, wanted one of verify, inspect, explain"},
        {"empty_command", {""}, "unknown command ''"},
        {"unknown_command", {"verfy", kDecode}, "unknown command 'verfy'"},
        {"unknown_option", {"verify", "--fast", kDecode}, "--fast"},
        {"verify_nothing", {"verify"}, "no capture given"},
        {"empty_path_name", {"verify", "--paths", "a,,b", kDecode}, "'' is no path name"},
        {"empty_paths", {"verify", "--paths", "", kDecode}, "'' is no path name"},
        {"wrong_path_name", {"verify", "--paths", "a/b", kDecode}, "'a/b' is no path name"},
        {"negative_threads", {"verify", "--threads", "-1", kDecode}, "--threads"},
        {"threads_no_number", {"verify", "--threads", "two", kDecode}, "--threads"},
        {"memory_zero", {"verify", "--max-memory", "0", kDecode}, "--max-memory"},
        {"memory_unit", {"verify", "--max-memory", "4X", kDecode}, "--max-memory"},
        {"memory_overflow", {"verify", "--max-memory", "99999999T", kDecode}, "--max-memory"},
        {"color", {"verify", "--color=maybe", kDecode}, "--color"},
        {"colors", {"verify", "--color=always", "--no-color", kDecode}, "--no-color"},
        {"json_folder",
         {"verify", "--json", "no/such/folder.json", kDecode},
         "no/such/folder.json"},
        {"json_is_folder", {"verify", "--json", "fixtures", kDecode}, "fixtures"},
        {"device",
         {"verify", "--device", "nope", kDecode, kDecode},
         "--device nope: unknown device"},
        {"wave", {"verify", "--wave", "48", kDecode}, "--wave"},
        {"inspect_nothing", {"inspect"}, "FILE"},
        {"inspect_two", {"inspect", kDecode, kDecode}, kDecode.c_str()},
        {"replay_no_path", {"replay", kDecode, "-o", "x.h5"}, "--path"},
        {"replay_no_output", {"replay", kDecode, "--path", "reference"}, "wanted -o FILE"},
        {"replay_unknown_path",
         {"replay", kDecode, "--path", "refrence", "-o", "x.h5"},
         "unknown path (known: reference, unfused, fused)"},
        {"diff_one_side", {"diff", kDecode + ":atom_fused"}, "GOT is required"},
        {"diff_no_path", {"diff", kDecode, kDecode + ":atom_fused"}, "is not FILE:PATH"},
        {"diff_empty_path", {"diff", kDecode + ":", kDecode + ":atom_fused"}, "is not FILE:PATH"},
        {"diff_empty_file", {"diff", ":atom_fused", kDecode + ":atom_fused"}, "is not FILE:PATH"},
    }),
    [](const auto& row) { return std::string(row.param.name); });

bool has_escape_codes(const std::string& text) {
  return contains(text, "\x1b");
}

TEST(Color, IsOnlyForTerminals) {
  EXPECT_FALSE(has_escape_codes(run_tool({"verify", "--device", "none", kDecode}).out));
  EXPECT_FALSE(has_escape_codes(run_tool({"inspect", kDecode}).out));
  EXPECT_TRUE(has_escape_codes(run_tool_on_terminal({"verify", "--device", "none", kDecode}).out));
  EXPECT_TRUE(has_escape_codes(run_tool_on_terminal({"inspect", kDecode}).out));
}

TEST(Color, EnvironmentTurnsItOff) {
  EXPECT_FALSE(has_escape_codes(
      run_tool_on_terminal({"verify", "--device", "none", kDecode}, {"NO_COLOR=1"}).out));
  EXPECT_FALSE(has_escape_codes(
      run_tool_on_terminal({"verify", "--device", "none", kDecode}, {"TERM=dumb"}).out));
  EXPECT_TRUE(has_escape_codes(
      run_tool_on_terminal({"verify", "--device", "none", kDecode}, {"NO_COLOR="}).out));
}

TEST(Color, OptionsDecideBeforeTheEnvironment) {
  EXPECT_TRUE(has_escape_codes(
      run_tool({"verify", "--device", "none", "--color=always", kDecode}, {"NO_COLOR=1"}).out));
  EXPECT_FALSE(has_escape_codes(
      run_tool_on_terminal({"verify", "--device", "none", "--no-color", kDecode}).out));
  EXPECT_FALSE(has_escape_codes(
      run_tool_on_terminal({"verify", "--device", "none", "--color", "never", kDecode}).out));
}

// Colours are all that a terminal adds.
TEST(Color, ChangesNothingElse) {
  std::string colored = run_tool({"verify", "--device", "none", "--color=always", kDecode}).out;
  for (std::size_t at = colored.find('\x1b'); at != std::string::npos; at = colored.find('\x1b')) {
    colored.erase(at, colored.find('m', at) - at + 1);
  }
  EXPECT_EQ(colored, run_tool({"verify", "--device", "none", kDecode}).out);
}

}  // namespace
}  // namespace zerodiff::test
