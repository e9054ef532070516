// `zerodiff selftest` and `zerodiff devices`.
#include <gtest/gtest.h>

#include "tests/tools/report_reading.h"
#include "tests/tools/tool_runner.h"

namespace zerodiff::test {
namespace {

TEST(Selftest, HostPasses) {
  const ToolRun run = run_tool({"selftest", "--device", "host"});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  for (const char* part :
       {"self-test of host", "square root", "division", "fma", "denormals", "16-bit conversions",
        "8-bit conversions", "lane sums", "shuffles", "graph replay", "canaries", "PASSED"}) {
    EXPECT_TRUE(contains(run.out, part)) << part << "\n" << run.out;
  }
}

TEST(Selftest, JsonHasEveryCheck) {
  int exit_code = -1;
  const Json report = report_of({"selftest", "--device", "host", "--wave", "64"}, &exit_code);
  EXPECT_EQ(exit_code, 0);
  EXPECT_EQ(report.at("command"), "selftest");
  EXPECT_EQ(report.at("device"), "host");
  EXPECT_EQ(report.at("passed"), true);
  EXPECT_EQ(report.at("checks").size(), 12U);
  for (const Json& check : report.at("checks")) {
    EXPECT_GT(check.at("checked"), 0) << check;
    EXPECT_EQ(check.at("mismatches"), 0) << check;
  }
}

struct MissingDevice {
  const char* name;
  int exit_code;
};

class MissingDevices : public testing::TestWithParam<MissingDevice> {};

TEST_P(MissingDevices, AreOneErrorLine) {
  for (const char* command : {"selftest", "replay"}) {
    std::vector<std::string> arguments{command, "--device", GetParam().name};
    if (std::string(command) == "replay") {
      arguments.insert(arguments.end(), {captured("decode_fp8"), "--path", "fused", "-o", "x.h5"});
    }
    const ToolRun run = run_tool(arguments);
    EXPECT_EQ(run.exit_code, GetParam().exit_code) << run.err;
    EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
    EXPECT_TRUE(contains(run.err, GetParam().name)) << run.err;
  }
}

// Index 99 exists nowhere: not built in is wrong usage, built in but not there an infrastructure
// failure.
INSTANTIATE_TEST_SUITE_P(Devices, MissingDevices,
                         testing::Values(MissingDevice{"none", 2}, MissingDevice{"gpu", 2},
                                         MissingDevice{"hip:99", ZERODIFF_HAS_HIP ? 3 : 2},
                                         MissingDevice{"cuda:99", ZERODIFF_HAS_CUDA ? 3 : 2}),
                         [](const auto& row) {
                           std::string name = row.param.name;
                           std::erase(name, ':');
                           return name;
                         });

TEST(Devices, SaysWhatWasBuiltIn) {
  const ToolRun run = run_tool({"devices"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "host ")) << run.out;
  EXPECT_EQ(contains(run.out, "hip"), ZERODIFF_HAS_HIP != 0) << run.out;
  EXPECT_EQ(contains(run.out, "cuda"), ZERODIFF_HAS_CUDA != 0) << run.out;
}

}  // namespace
}  // namespace zerodiff::test
