#include "tests/tools/report_reading.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/fixtures/capture_files.h"
#include "tests/tools/tool_runner.h"

namespace zerodiff::test {

Json report_of(std::vector<std::string> arguments, int* exit_code) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "report.json";
  arguments.insert(arguments.end(), {"--json", file.string()});
  const ToolRun run = run_tool(arguments);
  if (exit_code != nullptr) *exit_code = run.exit_code;
  std::ifstream in(file);
  Json report = Json::parse(in, nullptr, false);
  EXPECT_FALSE(report.is_discarded()) << "no JSON; standard error: " << run.err;
  return report;
}

Json comparison_of(const Json& report_case, const std::string& path, const std::string& output,
                   const std::string& scope) {
  Json found;
  int count = 0;
  for (const Json& comparison : report_case.at("comparisons")) {
    if (comparison.at("path") != path || comparison.at("output") != output) continue;
    if (!scope.empty() && comparison.at("scope") != scope) continue;
    found = comparison;
    ++count;
  }
  EXPECT_EQ(count, 1) << path << " " << output;
  return found;
}

Json without_times(Json report) {
  for (Json& one : report.at("cases")) one.erase("seconds");
  return report;
}

}  // namespace zerodiff::test
