// The processor check: programs built from tools/cpu_check.cc for each level, run on this
// processor.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace zerodiff::test {
namespace {

// What /proc/cpuinfo calls the features of each level beyond the one before.
const std::vector<std::pair<std::string, std::vector<std::string>>> kLevels{
    {"x86-64", {}},
    {"x86-64-v2", {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}},
    {"x86-64-v3", {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}},
    {"x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}}};

std::set<std::string> processor_flags() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line);
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

struct ProgramRun {
  int exit_code = -1;
  std::string text;
};

// The program prints "main" if main() is reached.
ProgramRun run_program(const std::string& name) {
  FILE* pipe = popen(("'" ZERODIFF_CPU_CHECK_FOLDER "/" + name + "' 2>&1").c_str(), "r");
  if (pipe == nullptr) return {};
  ProgramRun run;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) run.text += static_cast<char>(c);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) run.exit_code = WEXITSTATUS(status);
  return run;
}

TEST(CpuCheck, LetsAProcessorPassThatHasTheLevel) {
  const std::set<std::string> flags = processor_flags();
  ASSERT_FALSE(flags.empty());
  bool has_level = true;
  for (const auto& [level, features] : kLevels) {
    for (const std::string& feature : features) has_level = has_level && flags.contains(feature);
    const ProgramRun run = run_program("cpu_check_" + level);
    EXPECT_EQ(run.exit_code, has_level ? 0 : 3) << level << ": " << run.text;
    EXPECT_EQ(run.text == "main\n", has_level) << level << ": " << run.text;
  }
}

// Built with a processor query that always says no.
TEST(CpuCheck, StopsBeforeMainOnAProcessorThatLacksTheLevel) {
  for (const char* level : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    const ProgramRun run = run_program(std::string("cpu_check_lacking_") + level);
    EXPECT_EQ(run.exit_code, 3) << level;
    EXPECT_EQ(run.text, std::string("zerodiff: this build needs a processor with ") + level +
                            "; rebuild with -DZERODIFF_MARCH=x86-64\n");
  }
}

TEST(CpuCheck, LeavesOtherLevelsUnchecked) {
  EXPECT_EQ(run_program("cpu_check_lacking_x86-64").text, "main\n");
}

}  // namespace
}  // namespace zerodiff::test
