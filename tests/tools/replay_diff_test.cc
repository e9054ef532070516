// `zerodiff replay` and `zerodiff diff`.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fixtures/capture_files.h"
#include "tests/tools/altered_captures.h"
#include "tests/tools/report_reading.h"
#include "tests/tools/tool_runner.h"

namespace zerodiff::test {
namespace {

const std::string kDecode = captured("decode_fp8");
const std::string kPrefill = captured("prefill_bf16");
const std::string kGraph = captured("graph_fp8_scaled");

std::vector<std::string> replay_arguments(const std::string& capture, const std::string& output) {
  return {"replay", capture, "--path", "reference", "-o", output};
}

std::size_t entries_of(const std::filesystem::path& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

class Replay : public testing::TestWithParam<std::string> {};

TEST_P(Replay, WritesACaptureThatVerifies) {
  const TemporaryFolder folder;
  const std::string file = (folder / "replayed.h5").string();
  const ToolRun run = run_tool(replay_arguments(GetParam(), file));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "/outputs/reference: q, index_q")) << run.out;
  EXPECT_EQ(run_tool({"verify", "--paths", "reference", file}).exit_code, 0);
  EXPECT_EQ(entries_of(folder.path()), 1U);
}

TEST_P(Replay, KeepsEverythingElse) {
  const TemporaryFolder folder;
  const std::string file = (folder / "replayed.h5").string();
  ASSERT_EQ(run_tool(replay_arguments(GetParam(), file)).exit_code, 0);
  const Json before = report_of({"inspect", GetParam()}).at("capture");
  const Json after = report_of({"inspect", file}).at("capture");
  for (const char* key : {"call", "config", "not_exercised", "exercised"}) {
    EXPECT_EQ(after.at(key), before.at(key)) << key;
  }
  for (const Json& dataset : before.at("datasets")) {
    EXPECT_NE(std::find(after.at("datasets").begin(), after.at("datasets").end(), dataset),
              after.at("datasets").end())
        << dataset;
  }
}

INSTANTIATE_TEST_SUITE_P(Captured, Replay, testing::Values(kDecode, kPrefill, kGraph),
                         [](const auto& row) {
                           return std::filesystem::path(row.param).stem().string();
                         });

TEST(Replay, IntoTheCaptureItself) {
  const TemporaryFolder folder;
  const std::string file = (folder / "call.h5").string();
  std::filesystem::copy_file(kDecode, file);
  for (int round = 0; round < 2; ++round) {  // the second replaces the path
    ASSERT_EQ(run_tool(replay_arguments(file, file)).exit_code, 0);
    EXPECT_EQ(run_tool({"verify", "--paths", "reference", file}).exit_code, 0);
  }
  EXPECT_EQ(entries_of(folder.path()), 1U);
}

TEST(Replay, LeavesNothingBehindWhereItCannotWrite) {
  const TemporaryFolder folder;
  const auto missing = folder / "no/such/out.h5";
  const ToolRun no_folder = run_tool(replay_arguments(kDecode, missing.string()));
  EXPECT_EQ(no_folder.exit_code, 2);
  EXPECT_TRUE(is_one_error_line(no_folder.err)) << no_folder.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "no"));

  const ToolRun no_file = run_tool(replay_arguments(kDecode, "/proc/out.h5"));
  EXPECT_EQ(no_file.exit_code, 3);
  EXPECT_TRUE(is_one_error_line(no_file.err)) << no_file.err;
}

// Root may write anywhere, so the permission is tested for everybody else.
TEST(Replay, LeavesNothingBehindInAReadOnlyFolder) {
  const TemporaryFolder folder;
  const auto locked = folder / "locked";
  std::filesystem::create_directory(locked);
  ASSERT_EQ(chmod(locked.c_str(), 0500), 0);
  const ToolRun run = run_tool(replay_arguments(kDecode, (locked / "out.h5").string()));
  EXPECT_EQ(run.exit_code, geteuid() == 0 ? 0 : 3) << run.err;
  EXPECT_EQ(entries_of(locked), geteuid() == 0 ? 1U : 0U);
  ASSERT_EQ(chmod(locked.c_str(), 0700), 0);
}

TEST(Replay, KeepsAnOlderFileWhenTheCaptureIsInvalid) {
  const TemporaryFolder folder;
  const auto bad = folder / "bad.h5";
  const auto out = folder / "out.h5";
  const std::vector<std::byte> old{std::byte{1}, std::byte{2}};
  write_bytes(out, old);
  write_with_wrong_digest(kDecode, bad, "/inputs/k_cache");
  const ToolRun run = run_tool(replay_arguments(bad.string(), out.string()));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
  EXPECT_EQ(read_bytes(out), old);
  EXPECT_EQ(entries_of(folder.path()), 2U);
}

TEST(Diff, ReplayedAgainstStored) {
  const TemporaryFolder folder;
  const std::string file = (folder / "replayed.h5").string();
  ASSERT_EQ(run_tool(replay_arguments(kDecode, file)).exit_code, 0);
  EXPECT_EQ(run_tool({"diff", file + ":reference", file + ":reference"}).exit_code, 0);
  const std::string twice = (folder / "fused.h5").string();
  ASSERT_EQ(run_tool({"replay", file, "--path", "fused", "-o", twice}).exit_code, 0);
  EXPECT_EQ(run_tool({"diff", twice + ":reference", twice + ":fused"}).exit_code, 0);
  const ToolRun run = run_tool({"diff", file + ":reference", kDecode + ":atom_fused"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.err, "");
  for (const char* part : {":atom_fused", "against", "27", "slot 1280", "FAILED",
                           "k_cache, index_cache", "re-run: zerodiff diff "}) {
    EXPECT_TRUE(contains(run.out, part)) << part << "\n" << run.out;
  }
}

TEST(Diff, OutputThatOneSideLacksFails) {
  const TemporaryFolder folder;
  const std::string file = (folder / "partial.h5").string();
  add_altered_path(kGraph, file, "nvcc_fused", "partial",
                   [](Outputs& outputs) { outputs.v_cache = {}; });
  int exit_code = -1;
  for (const auto& [a, b] : {std::pair{":nvcc_fused", ":partial"}, {":partial", ":nvcc_fused"}}) {
    const Json report = report_of({"diff", file + a, file + b}, &exit_code);
    EXPECT_EQ(exit_code, 1);
    const Json v = comparison_of(report.at("cases").at(0), file + b, "v_cache");
    EXPECT_EQ(v.at("verdict"), "absent");
    EXPECT_EQ(report.at("cases").at(0).at("reason"), "only one side has v_cache");
  }
}

TEST(Diff, WarnsWhereTheInputsDiffer) {
  const TemporaryFolder folder;
  const std::string first = (folder / "first.h5").string();
  const std::string second = (folder / "second.h5").string();
  write_graph_call(first, [](LayerCall&) {});
  write_graph_call(second, [](LayerCall& call) { call.qkv.as<std::uint16_t>()[0] ^= 1U; });
  for (const std::string& file : {first, second}) {
    ASSERT_EQ(run_tool(replay_arguments(file, file)).exit_code, 0);
  }
  const Json report = report_of({"diff", first + ":reference", second + ":reference"});
  ASSERT_EQ(report.at("cases").at(0).at("warnings").size(), 1U);
  EXPECT_TRUE(contains(report.at("cases").at(0).at("warnings").at(0), "differ in qkv"));
}

TEST(Diff, RefusesCallsThatDoNotMatch) {
  const ToolRun run = run_tool({"diff", kDecode + ":nvcc_fused", kGraph + ":nvcc_fused"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
  EXPECT_TRUE(contains(run.err, "found graph, wanted eager")) << run.err;
}

TEST(Diff, RefusesAPathThatIsNotThere) {
  const ToolRun run = run_tool({"diff", kDecode + ":nvcc_fused", kDecode + ":nvcc_fuse"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
  EXPECT_TRUE(contains(run.err, "/outputs/nvcc_fuse")) << run.err;
}

TEST(Diff, RefusesPathsWithoutACommonOutput) {
  const TemporaryFolder folder;
  const std::string file = (folder / "hollow.h5").string();
  add_altered_path(kGraph, file, "nvcc_fused", "hollow", [](Outputs& outputs) { outputs = {}; });
  const ToolRun run = run_tool({"diff", file + ":nvcc_fused", file + ":hollow"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
}

}  // namespace
}  // namespace zerodiff::test
