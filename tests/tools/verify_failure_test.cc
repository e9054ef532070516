// `zerodiff verify` where input, disk or memory do not play along.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/fixtures/capture_files.h"
#include "tests/tools/altered_captures.h"
#include "tests/tools/report_reading.h"
#include "tests/tools/tool_runner.h"

namespace zerodiff::test {
namespace {

const std::string kDecode = captured("decode_fp8");
const std::string kGraph = captured("graph_fp8_scaled");

// Whatever is wrong with one capture, the others are judged.
void expect_invalid_beside_valid(const std::string& bad, const std::string& message) {
  int exit_code = -1;
  const Json report = report_of({"verify", "--device", "none", kDecode, bad, kGraph}, &exit_code);
  EXPECT_EQ(exit_code, 2);
  EXPECT_EQ(report.at("cases").at(0).at("outcome"), "PASSED");
  EXPECT_EQ(report.at("cases").at(1).at("outcome"), "INVALID_INPUT");
  EXPECT_TRUE(contains(report.at("cases").at(1).at("reason"), message)) << report.at("cases").at(1);
  EXPECT_EQ(report.at("cases").at(2).at("outcome"), "PASSED");
  const ToolRun run = run_tool({"verify", "--device", "none", kDecode, bad, kGraph});
  EXPECT_TRUE(contains(run.out, "INVALID_INPUT")) << run.out;
  EXPECT_EQ(lines_of(run.out).back(), "2 passed, 0 failed, 1 invalid");
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
}

TEST(InvalidCapture, ThatIsNotThere) {
  expect_invalid_beside_valid("no_such.h5", "no_such.h5");
}

TEST(InvalidCapture, ThatIsNoHdf5File) {
  const TemporaryFolder folder;
  const auto file = folder / "text.h5";
  write_bytes(file, std::vector<std::byte>(1000, std::byte{'x'}));
  expect_invalid_beside_valid(file.string(), "text.h5");
}

TEST(InvalidCapture, ThatIsEmpty) {
  const TemporaryFolder folder;
  const auto file = folder / "empty.h5";
  write_bytes(file, {});
  expect_invalid_beside_valid(file.string(), "empty.h5");
}

TEST(InvalidCapture, ThatIsTruncated) {
  const TemporaryFolder folder;
  const auto file = folder / "short.h5";
  std::vector<std::byte> bytes = read_bytes(kDecode);
  bytes.resize(bytes.size() / 2);
  write_bytes(file, bytes);
  expect_invalid_beside_valid(file.string(), "short.h5");
}

TEST(InvalidCapture, WithAWrongDigestInTheCall) {
  const TemporaryFolder folder;
  const auto file = folder / "digest.h5";
  write_with_wrong_digest(kDecode, file, "/inputs/qkv");
  expect_invalid_beside_valid(file.string(), "/inputs/qkv");
}

TEST(InvalidCapture, WithAWrongDigestInAPath) {
  const TemporaryFolder folder;
  const auto file = folder / "digest.h5";
  write_with_wrong_digest(kDecode, file, "/outputs/nvcc_fused/k_cache");
  expect_invalid_beside_valid(file.string(), "/outputs/nvcc_fused/k_cache");
}

TEST(InvalidCapture, ThatIsAFolder) {
  expect_invalid_beside_valid("fixtures", "fixtures");
}

TEST(InvalidCapture, ThatTakesMoreMemoryThanAllowed) {
  const ToolRun run = run_tool({"verify", "--max-memory", "64KiB", kDecode});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(contains(run.err, "--max-memory")) << run.err;
  EXPECT_TRUE(contains(run.out, "re-run: zerodiff verify --max-memory 65536 ")) << run.out;
}

// The gravest outcome decides: an invalid capture before a failing one.
TEST(ExitCode, InvalidBeatsFailed) {
  EXPECT_EQ(run_tool({"verify", "--device", "none", "--paths", "atom_fused", kDecode, "no_such.h5"})
                .exit_code,
            2);
}

TEST(ExitCode, FullDiskForTheReportIs3) {
  const ToolRun run = run_tool_into("/dev/full", {"verify", "--device", "none", kDecode});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
}

TEST(ExitCode, FullDiskForJsonIs3) {
  const ToolRun run = run_tool({"verify", "--device", "none", "--json", "/dev/full", kDecode});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
}

TEST(Json, CannotBeWrittenLeavesNothing) {
  const TemporaryFolder folder;
  const auto file = folder / "taken.h5";
  write_bytes(file, {std::byte{1}});
  const ToolRun run =
      run_tool({"verify", "--device", "none", "--json", (file / "report.json").string(), kDecode});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
  EXPECT_EQ(read_bytes(file), std::vector<std::byte>{std::byte{1}});
}

// /proc takes no files from anybody, root included.
TEST(Json, FolderThatTakesNoFilesIs3) {
  const ToolRun run =
      run_tool({"verify", "--device", "none", "--json", "/proc/report.json", kDecode});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
}

}  // namespace
}  // namespace zerodiff::test
