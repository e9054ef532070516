// `zerodiff inspect`.
#include <gtest/gtest.h>

#include "tests/fixtures/capture_files.h"
#include "tests/fixtures/hdf5_edit.h"
#include "tests/tools/altered_captures.h"
#include "tests/tools/report_reading.h"
#include "tests/tools/tool_runner.h"

namespace zerodiff::test {
namespace {

const std::string kDecode = captured("decode_fp8");
const std::string kGraph = captured("graph_fp8_scaled");

Json config_entry(const Json& report, const std::string& name) {
  for (const Json& entry : report.at("capture").at("config")) {
    if (entry.at("name") == name) return entry;
  }
  ADD_FAILURE() << "no config entry " << name;
  return {};
}

TEST(Inspect, ShowsWhatACaptureHolds) {
  const ToolRun run = run_tool({"inspect", kGraph});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
  for (const char* part :
       {"3 tokens of 8 rows", "model = MiniMax-M3", "kv_cache_dtype", "quantize_from", "rope_theta",
        "unknown attribute", "[88, 1, 8, 16, 16]", "float8_e4m3fn", "176.0 KiB", "verified",
        "nvcc_fused", "torch_unfused", "outputs: q, index_q, k_cache", "k_scale 0.07, v_scale 0.31",
        "5 padding", "no_saturation: "}) {
    EXPECT_TRUE(contains(run.out, part)) << part << "\n" << run.out;
  }
  for (const std::string& line : lines_of(run.out)) EXPECT_FALSE(line.ends_with(' ')) << line;
}

TEST(Inspect, TellsGivenDefaultAndUnknownConfigApart) {
  const Json report = report_of({"inspect", kDecode});
  EXPECT_EQ(config_entry(report, "rotary_dim").at("origin"), "file");
  EXPECT_EQ(config_entry(report, "rotary_dim").at("value"), 64);
  EXPECT_EQ(config_entry(report, "scale_op").at("origin"), "default");
  EXPECT_EQ(config_entry(report, "scale_op").at("value"), "multiply_reciprocal");
  EXPECT_EQ(config_entry(report, "rope_theta").at("origin"), "unknown");
  EXPECT_EQ(config_entry(report, "rms_norm_eps").at("value").dump(), "1e-06");
  EXPECT_EQ(config_entry(report, "skip_index_branch").at("value"), false);
}

TEST(Inspect, ChecksEveryDigest) {
  const Json report = report_of({"inspect", kDecode});
  ASSERT_GT(report.at("capture").at("datasets").size(), 30U);
  for (const Json& dataset : report.at("capture").at("datasets")) {
    EXPECT_EQ(dataset.at("digest"), "verified") << dataset;
  }
}

TEST(Inspect, ShowsAMissingDigest) {
  const TemporaryFolder folder;
  const auto file = folder / "no_digest.h5";
  std::filesystem::copy_file(kDecode, file);
  edit_file(file, [](hid_t id) { remove_attribute(id, "/inputs/positions", "xxh3_128"); });
  const ToolRun run = run_tool({"inspect", file.string()});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_TRUE(contains(run.out, "missing")) << run.out;
}

TEST(Inspect, RefusesAWrongDigest) {
  const TemporaryFolder folder;
  const auto file = folder / "digest.h5";
  write_with_wrong_digest(kDecode, file, "/outputs/atom_fused/q");
  const ToolRun run = run_tool({"inspect", file.string()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
  EXPECT_TRUE(contains(run.err, "/outputs/atom_fused/q")) << run.err;
}

TEST(Inspect, RefusesWhatIsNoCapture) {
  for (const char* file : {"no_such.h5", "CMakeLists.txt", "fixtures"}) {
    const ToolRun run = run_tool({"inspect", file});
    EXPECT_EQ(run.exit_code, 2) << file;
    EXPECT_EQ(run.out, "") << file;
    EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
  }
}

// Two rows in one slot keep the call from being run; what else there is can still be shown.
TEST(Inspect, ShowsACallThatCannotBeRun) {
  const TemporaryFolder folder;
  const auto file = folder / "doubled.h5";
  write_graph_call(file, [](LayerCall& call) {
    auto slots = call.page16_slot_mapping.as<std::int64_t>();
    slots[1] = slots[3];
  });
  const ToolRun run = run_tool({"inspect", file.string()});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "block_contiguous")) << run.out;
}

TEST(Inspect, FullDiskIs3) {
  EXPECT_EQ(run_tool_into("/dev/full", {"inspect", kDecode}).exit_code, 3);
}

}  // namespace
}  // namespace zerodiff::test
