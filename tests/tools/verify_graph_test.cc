// `zerodiff verify --graph`, `--repeat` and several devices, and `zerodiff bench`, as a user runs
// them.
#include <gtest/gtest.h>

#include "tests/tools/report_reading.h"
#include "tests/tools/tool_runner.h"

namespace zerodiff::test {
namespace {

const std::string kDecode = captured("decode_fp8");
const std::string kPrefill = captured("prefill_bf16");
const std::string kGraph = captured("graph_fp8_scaled");

TEST(VerifyGraph, ReportsTheReplaysOfEachPath) {
  int exit_code = -1;
  const Json report =
      report_of({"verify", "--device", "host", "--graph=9", "--repeat", "3", kGraph}, &exit_code);
  EXPECT_EQ(exit_code, 0);
  const Json& own = report.at("cases").at(0).at("write_set");
  ASSERT_EQ(own.at("graph_safe").size(), 4U);
  int layers = 0;
  for (const Json& replay : own.at("graph_safe")) {
    EXPECT_TRUE(replay.at("equivalent").get<bool>()) << replay;
    EXPECT_EQ(replay.at("live_counts").size(), replay.at("replays"));
    if (replay.at("scope") != "layer") continue;
    ++layers;
    EXPECT_EQ(replay.at("replays"), 9);
  }
  EXPECT_EQ(layers, 2);
  ASSERT_EQ(own.at("repeats").size(), 2U);
  EXPECT_EQ(own.at("repeats").at(1).at("runs"), 3);
  ASSERT_EQ(own.at("invariance").size(), 2U);
  EXPECT_TRUE(own.at("invariance").at(0).at("invariant").get<bool>());
}

TEST(VerifyGraph, IsAFlagBeforeACapture) {
  const ToolRun run = run_tool({"verify", "--device", "host", "--graph", kGraph});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "unfused (whole layer): eager ≡ graph-safe, 8 replays")) << run.out;
  EXPECT_TRUE(contains(run.out, "fused (whole layer): eager ≡ graph-safe, 8 replays")) << run.out;
}

TEST(VerifyGraph, RunsInsertionAloneWithoutIt) {
  const Json report = report_of({"verify", "--device", "host", kGraph});
  const Json& own = report.at("cases").at(0).at("write_set");
  ASSERT_EQ(own.at("graph_safe").size(), 2U);
  for (const Json& replay : own.at("graph_safe")) EXPECT_EQ(replay.at("scope"), "insertion");
  EXPECT_FALSE(own.contains("repeats"));
}

TEST(VerifyGraph, RefusesFewerReplaysThanShrinkAndGrow) {
  const ToolRun run = run_tool({"verify", "--device", "host", "--graph=3", kGraph});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
}

TEST(SeveralDevices, ReportWhatOneReportsInTheSameOrder) {
  const std::vector<std::string> captures{kDecode, kPrefill, kGraph, kDecode};
  const auto cases_on = [&](const std::string& devices) {
    std::vector<std::string> arguments{"verify", "--device", devices};
    arguments.insert(arguments.end(), captures.begin(), captures.end());
    Json cases = without_times(report_of(arguments)).at("cases");
    for (Json& one : cases) one.erase("rerun");
    return cases;
  };
  const Json one = cases_on("host");
  EXPECT_EQ(one.size(), captures.size());
  EXPECT_EQ(one, cases_on("host,host"));
  EXPECT_EQ(one, cases_on("host,host,host"));
}

struct WrongDevices {
  const char* name;
  const char* list;
};
void PrintTo(const WrongDevices& row, std::ostream* out) {
  *out << row.name;
}
class DeviceList : public testing::TestWithParam<WrongDevices> {};

TEST_P(DeviceList, IsRefusedInOneLine) {
  const ToolRun run = run_tool({"verify", "--device", GetParam().list, kGraph, kDecode});
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
  EXPECT_TRUE(contains(run.err, "--device ")) << run.err;
}

INSTANTIATE_TEST_SUITE_P(Wrong, DeviceList,
                         testing::ValuesIn(std::vector<WrongDevices>{{"empty_name", "host,"},
                                                                     {"empty_first", ",host"},
                                                                     {"none_beside", "host,none"},
                                                                     {"auto_beside", "auto,host"},
                                                                     {"unknown", "host,nowhere"},
                                                                     {"of_no_kind", "host:0,1"}}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Bench, MeasuresACapture) {
  int exit_code = -1;
  const Json report = report_of({"bench", "--device", "host", "--runs", "2", kGraph}, &exit_code);
  EXPECT_EQ(exit_code, 0);
  EXPECT_EQ(report.at("command"), "bench");
  EXPECT_EQ(report.at("clock"), "wall clock");
  EXPECT_EQ(report.at("runs"), 2);
  EXPECT_GT(report.at("copy").at("bytes_per_second"), 0);
  EXPECT_EQ(report.at("stages").size(), 15U);
  EXPECT_GT(report.at("unfused_by_fused").at("whole path"), 0);
}

struct WrongBench {
  const char* name;
  std::vector<std::string> arguments;
};
void PrintTo(const WrongBench& row, std::ostream* out) {
  *out << row.name;
}
class BenchUsage : public testing::TestWithParam<WrongBench> {};

TEST_P(BenchUsage, IsRefusedInOneLine) {
  std::vector<std::string> arguments = GetParam().arguments;
  arguments.insert(arguments.begin(), "bench");
  const ToolRun run = run_tool(arguments);
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
}

INSTANTIATE_TEST_SUITE_P(Wrong, BenchUsage,
                         testing::ValuesIn(std::vector<WrongBench>{
                             {"nothing", {"--device", "host"}},
                             {"both", {"--device", "host", "--shape", "tokens=1", kGraph}},
                             {"no_device", {"--device", "none", "--shape", "tokens=1"}},
                             {"bad_shape", {"--device", "host", "--shape", "tokens=-1"}},
                             {"other_index_heads",
                              {"--device", "host", "--shape", "kv_heads=2,index_heads=1,tokens=1"}},
                         }),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace zerodiff::test
