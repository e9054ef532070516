// `zerodiff replay --record`, `--run` and `--check`: out to a folder, and what comes back.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/fixtures/capture_files.h"
#include "tests/tools/report_reading.h"
#include "tests/tools/tool_runner.h"

namespace zerodiff::test {
namespace {

namespace fs = std::filesystem;

const std::string kDecode = captured("decode_fp8");

std::string recorded(const TemporaryFolder& folder, const std::string& path) {
  std::string recording = (folder / ("recording_" + path)).string();
  const ToolRun run = run_tool({"replay", kDecode, "--path", path, "--record", recording});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return recording;
}

// The results as another tool would write them: what the recording says itself.
void bring_back(const std::string& recording) {
  std::vector<fs::path> recorded_files;
  for (const auto& entry : fs::directory_iterator(recording)) {
    recorded_files.push_back(entry.path());
  }
  for (const fs::path& file : recorded_files) {
    const std::string name = file.string();
    const std::size_t state = name.rfind(".after.bin");
    if (state != std::string::npos) {
      fs::copy_file(file, name.substr(0, state) + ".result.bin");
    }
  }
}

void flip(const fs::path& file, std::int64_t byte) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(byte);
  const int old = stream.get();
  stream.seekp(byte);
  stream.put(static_cast<char>(old ^ 1));
  ASSERT_TRUE(stream.good()) << file;
}

class RecordedPath : public testing::TestWithParam<std::string> {};

TEST_P(RecordedPath, ComesBackFromAnotherWaveWidth) {
  const TemporaryFolder folder;
  const std::string recording = recorded(folder, GetParam());
  const ToolRun run = run_tool({"replay", "--run", recording, "--device", "host", "--wave", "64"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const ToolRun check = run_tool({"replay", "--check", recording});
  EXPECT_EQ(check.exit_code, 0) << check.out << check.err;
  EXPECT_TRUE(contains(check.out, "attn_output"));
  EXPECT_TRUE(contains(check.out, "PASSED"));
}

INSTANTIATE_TEST_SUITE_P(Own, RecordedPath, testing::Values("unfused", "fused"),
                         [](const auto& row) { return row.param; });

TEST(CheckedRecording, NamesTheByteThatDiffers) {
  const TemporaryFolder folder;
  const std::string recording = recorded(folder, "fused");
  bring_back(recording);
  EXPECT_EQ(run_tool({"replay", "--check", recording}).exit_code, 0);
  flip(fs::path(recording) / "011_k_cache.result.bin", 1000);
  const ToolRun run = run_tool({"replay", "--check", recording});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.err, "");
  for (const char* part : {"k_cache", "element 1000", "launch 0 (fused_insert_bf16_fp8_fp8)",
                           "FAILED: 1 of 27 buffers"}) {
    EXPECT_TRUE(contains(run.out, part)) << part << "\n" << run.out;
  }
  int exit_code = -1;
  const Json report = report_of({"replay", "--check", recording}, &exit_code);
  EXPECT_EQ(exit_code, 1);
  EXPECT_EQ(report.at("passed"), false);
  const Json& buffer = report.at("buffers").at(11);
  EXPECT_EQ(buffer.at("name"), "k_cache");
  EXPECT_EQ(buffer.at("state"), "different");
  EXPECT_EQ(buffer.at("different"), 1);
  EXPECT_EQ(buffer.at("first").at("element"), 1000);
}

TEST(CheckedRecording, RefusesMissingAndShortResults) {
  const TemporaryFolder folder;
  const std::string recording = recorded(folder, "fused");
  bring_back(recording);
  const fs::path result = fs::path(recording) / "009_q.result.bin";
  fs::resize_file(result, fs::file_size(result) - 1);
  for (int round = 0; round < 2; ++round) {
    const ToolRun run = run_tool({"replay", "--check", recording});
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_EQ(run.out, "");
    EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
    EXPECT_TRUE(contains(run.err, "009_q.result.bin")) << run.err;
    fs::remove(result);
  }
}

TEST(CheckedRecording, RefusesWhatIsNoRecording) {
  const TemporaryFolder folder;
  for (const char* option : {"--check", "--run"}) {
    const ToolRun run = run_tool({"replay", option, folder.path().string()});
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
    EXPECT_TRUE(contains(run.err, "index.json")) << run.err;
  }
}

TEST(CheckedRecording, TakesOneThingAtATime) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"replay", "--check", "a", "--run", "a"},
        {"replay", kDecode},
        {"replay", "--path", "fused"},
        {"replay", kDecode, "--path", "fused", "-o", "x.h5", "--json", "-"}}) {
    const ToolRun run = run_tool(arguments);
    EXPECT_EQ(run.exit_code, 2) << arguments[1];
    EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
  }
}

}  // namespace
}  // namespace zerodiff::test
