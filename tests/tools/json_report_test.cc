// The JSON of every command: its schema, its determinism, how it is written.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/fixtures/capture_files.h"
#include "tests/fixtures/hdf5_edit.h"
#include "tests/tools/altered_captures.h"
#include "tests/tools/report_reading.h"
#include "tests/tools/tool_runner.h"

namespace zerodiff::test {
namespace {

const std::string kDecode = captured("decode_fp8");
const std::string kPrefill = captured("prefill_bf16");
const std::string kGraph = captured("graph_fp8_scaled");

// Runs the tool and holds its JSON against docs/report.schema.json with Python's jsonschema. The
// interpreter or the module being absent fails the test.
void expect_valid_json(std::vector<std::string> arguments, int exit_code) {
  const TemporaryFolder folder;
  const std::string file = (folder / "report.json").string();
  arguments.insert(arguments.end(), {"--json", file});
  EXPECT_EQ(run_tool(arguments).exit_code, exit_code) << arguments.front();
  const std::string command =
      "/usr/bin/python3 tests/tools/validate_report.py docs/report.schema.json '" + file + "' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  EXPECT_EQ(pclose(pipe), 0) << text;
  EXPECT_EQ(text, "valid\n");
}

TEST(Schema, HoldsForExplain) {
  expect_valid_json({"explain", kDecode, "--path", "atom_fused"}, 0);
  expect_valid_json({"explain", kPrefill, "--path", "nvcc_fused"}, 0);
  expect_valid_json({"explain", kGraph, "--path", "reference"}, 0);
}

TEST(Schema, HoldsForVerify) {
  expect_valid_json({"verify", "--strict", kDecode, kPrefill, kGraph}, 1);
}

TEST(Schema, HoldsForClaimsAndAllowedChoices) {
  const TemporaryFolder folder;
  const auto file = (folder / "claims.h5").string();
  CaptureReader reader(kDecode, in_process());
  const Outputs outputs = reader.read_path("nvcc_fused");
  add_path(kDecode, file, {"claiming", &outputs, {{"topk", std::int64_t{8}}}});
  expect_valid_json({"verify", "--device", "none", "--allow", "quantize_from=fp32", file}, 0);
}

TEST(Schema, HoldsForOneStageAndForASelectionThatDiffers) {
  expect_valid_json({"verify", "--stage", "index_topk", kDecode}, 0);
  const TemporaryFolder folder;
  const auto file = (folder / "selection.h5").string();
  add_altered_path(kDecode, file, "atom_fused", "other", [](Outputs& outputs) {
    outputs.topk_index.as<std::int32_t>()[0] = 99;
    std::swap(outputs.topk_index.as<std::int32_t>()[4], outputs.topk_index.as<std::int32_t>()[5]);
  });
  expect_valid_json({"verify", "--device", "none", file}, 0);
}

TEST(Schema, HoldsForReplaysAndRepeats) {
  expect_valid_json({"verify", "--device", "host", "--graph", "--repeat", "2", kGraph}, 0);
}

TEST(Schema, HoldsForBench) {
  expect_valid_json({"bench", "--device", "host", "--runs", "1", "--shape", "tokens=2,heads=2"}, 0);
}

TEST(Schema, HoldsForSelftest) {
  expect_valid_json({"selftest", "--device", "host"}, 0);
}

TEST(Schema, HoldsForRecordings) {
  const TemporaryFolder folder;
  const std::string recording = (folder / "recording").string();
  ASSERT_EQ(run_tool({"replay", kDecode, "--path", "fused", "--record", recording}).exit_code, 0);
  ASSERT_EQ(run_tool({"replay", "--run", recording}).exit_code, 0);
  expect_valid_json({"replay", "--check", recording}, 0);
  std::ofstream(folder / "recording/009_q.result.bin", std::ios::in | std::ios::binary) << "other";
  expect_valid_json({"replay", "--check", recording}, 1);
}

TEST(Schema, HoldsForCasesThatWereNotJudged) {
  expect_valid_json({"verify", "--device", "none", "--paths", "atom_fused", kGraph, "no_such.h5"},
                    2);
}

TEST(Schema, HoldsForNanAndInfinity) {
  const TemporaryFolder folder;
  const auto file = (folder / "nan.h5").string();
  add_altered_path(kDecode, file, "nvcc_fused", "nan", [](Outputs& outputs) {
    outputs.q.as<std::uint16_t>()[0] = 0x7fc0;
    outputs.q.as<std::uint16_t>()[1] = 0xff80;
    outputs.k_cache.as<std::uint8_t>()[0] ^= 0x80;
  });
  expect_valid_json({"verify", "--device", "none", file}, 0);
}

TEST(Schema, HoldsForADifferentSlotMap) {
  const TemporaryFolder folder;
  const auto file = (folder / "swapped.h5").string();
  write_graph_call(file, [](LayerCall& call) {
    auto slots = call.page16_slot_mapping.as<std::int64_t>();
    std::swap(slots[1], slots[3]);
  });
  expect_valid_json({"verify", file}, 1);
}

TEST(Schema, HoldsForInspect) {
  for (const std::string& capture : {kDecode, kPrefill, kGraph}) {
    expect_valid_json({"inspect", capture}, 0);
  }
}

TEST(Schema, HoldsForInspectOfOddAttributes) {
  const TemporaryFolder folder;
  const auto file = folder / "odd.h5";
  std::filesystem::copy_file(kDecode, file);
  edit_file(file, [](hid_t id) {
    set_attribute(id, "/", "note", std::string("\xff not utf-8, \x1b[31m"));
    set_array_attribute(id, "/config", "list", {1, 2, 3});
  });
  expect_valid_json({"inspect", file.string()}, 0);
  const ToolRun run = run_tool({"inspect", file.string()});
  EXPECT_FALSE(contains(run.out, "\x1b")) << "a file must not drive the terminal";
}

TEST(Schema, HoldsForDiff) {
  expect_valid_json({"diff", kDecode + ":nvcc_fused", kDecode + ":torch_unfused"}, 0);
  expect_valid_json({"diff", kDecode + ":nvcc_fused", kDecode + ":atom_fused"}, 1);
}

// The validator itself must be able to refuse.
TEST(Schema, RefusesAReportThatLacksAKey) {
  const TemporaryFolder folder;
  const auto file = folder / "broken.json";
  Json report = report_of({"verify", "--device", "none", kGraph});
  report.at("cases").at(0).at("comparisons").at(0).erase("max_ulp");
  std::ofstream(file) << report;
  const std::string command =
      "/usr/bin/python3 tests/tools/validate_report.py "
      "docs/report.schema.json '" +
      file.string() + "' >/dev/null 2>&1";
  EXPECT_NE(std::system(command.c_str()), 0);
}

TEST(JsonReport, IsTheSameInTwoRunsApartFromTimes) {
  const std::vector<std::string> arguments{"verify", "--strict", kDecode, kPrefill, kGraph};
  const Json first = without_times(report_of(arguments));
  EXPECT_EQ(first, without_times(report_of(arguments)));
  std::vector<std::string> one_thread = arguments;
  one_thread.insert(one_thread.end(), {"--threads", "1"});
  EXPECT_EQ(first, without_times(report_of(one_thread)));
}

TEST(JsonReport, IsTheSameToTheByteForInspect) {
  const ToolRun first = run_tool({"inspect", "--json", "-", kDecode});
  EXPECT_EQ(first.exit_code, 0);
  EXPECT_EQ(first.out, run_tool({"inspect", "--json", "-", kDecode}).out);
}

TEST(JsonReport, OnStandardOutputTakesThePlaceOfTheTable) {
  const ToolRun run =
      run_tool({"verify", "--device", "host", "--json", "-", "--paths", "nvcc_fused", kDecode});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
  const Json report = Json::parse(run.out, nullptr, false);
  ASSERT_FALSE(report.is_discarded()) << run.out;
  EXPECT_EQ(report.at("tool"), "zerodiff");
  EXPECT_EQ(report.at("version"), ZERODIFF_VERSION);
  EXPECT_EQ(report.at("schema"), 1);
  EXPECT_EQ(report.at("device"), "host");
  const Json& write_set = report.at("cases").at(0).at("write_set");
  EXPECT_EQ(write_set.at("caches").size(), 6U);
  for (const Json& cache : write_set.at("caches")) {
    EXPECT_TRUE(cache.at("holds").get<bool>()) << cache;
    EXPECT_GT(cache.at("expected_bytes"), 0) << cache;
    EXPECT_EQ(cache.at("written_bytes"), cache.at("expected_bytes")) << cache;
  }
  EXPECT_EQ(write_set.at("graph_safe").size(), 2U);
  EXPECT_EQ(write_set.at("poison").size(), 4U);
  EXPECT_FALSE(write_set.contains("faults"));
}

TEST(JsonReport, ReplacesAnOlderFileAndLeavesNothingElse) {
  const TemporaryFolder folder;
  const auto file = folder / "report.json";
  write_bytes(file, std::vector<std::byte>(1000000, std::byte{'x'}));
  EXPECT_EQ(run_tool({"verify", "--device", "none", "--json", file.string(), kDecode}).exit_code,
            0);
  std::ifstream in(file);
  EXPECT_FALSE(Json::parse(in, nullptr, false).is_discarded());
  const auto entries = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

}  // namespace
}  // namespace zerodiff::test
