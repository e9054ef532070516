// `zerodiff verify`: verdicts, gating and what is printed.
#include <gtest/gtest.h>

#include "tests/fixtures/capture_files.h"
#include "tests/tools/altered_captures.h"
#include "tests/tools/report_reading.h"
#include "tests/tools/tool_runner.h"

namespace zerodiff::test {
namespace {

const std::string kDecode = captured("decode_fp8");
const std::string kPrefill = captured("prefill_bf16");
const std::string kGraph = captured("graph_fp8_scaled");

std::vector<std::string> outcomes(const Json& report) {
  std::vector<std::string> names;
  for (const Json& one : report.at("cases")) names.push_back(one.at("outcome"));
  return names;
}

struct GateCase {
  const char* name;
  std::vector<std::string> arguments;
  int exit_code;
  std::vector<std::string> outcomes;
};
void PrintTo(const GateCase& gate, std::ostream* out) {
  *out << gate.name;
}

class Gate : public testing::TestWithParam<GateCase> {};

TEST_P(Gate, DecidesOutcomesAndExitCode) {
  std::vector<std::string> arguments = GetParam().arguments;
  arguments.insert(arguments.begin(), {"verify", "--device", "none"});
  int exit_code = -1;
  const Json report = report_of(arguments, &exit_code);
  EXPECT_EQ(exit_code, GetParam().exit_code);
  EXPECT_EQ(outcomes(report), GetParam().outcomes);
}

// atom_fused quantises from fp32, against the declared contract; the others follow it.
INSTANTIATE_TEST_SUITE_P(
    Captured, Gate,
    testing::ValuesIn(std::vector<GateCase>{
        {"decode", {kDecode}, 0, {"PASSED"}},
        {"all_captures", {kDecode, kPrefill, kGraph}, 0, {"PASSED", "PASSED", "PASSED"}},
        {"conforming_path", {"--paths", "nvcc_fused", kDecode}, 0, {"PASSED"}},
        {"two_conforming", {"--paths", "nvcc_fused,torch_unfused", kDecode}, 0, {"PASSED"}},
        {"option_twice",
         {"--paths", "nvcc_fused", "--paths", "torch_unfused", kDecode},
         0,
         {"PASSED"}},
        {"different_path", {"--paths", "atom_fused", kDecode}, 1, {"FAILED"}},
        {"one_of_two", {"--paths", "nvcc_fused,atom_fused", kDecode}, 1, {"FAILED"}},
        {"all", {"--paths", "all", kDecode}, 1, {"FAILED"}},
        {"all_conforming", {"--paths", "all", kGraph}, 0, {"PASSED"}},
        {"strict", {"--strict", kDecode}, 1, {"FAILED"}},
        {"strict_conforming", {"--strict", kGraph}, 0, {"PASSED"}},
        {"strict_and_named", {"--strict", "--paths", "nvcc_fused", kDecode}, 1, {"FAILED"}},
        {"missing_in_one", {"--paths", "atom_fused", kGraph, kDecode}, 1, {"MISSING", "FAILED"}},
        {"in_no_capture", {"--paths", "aiter_fused", kDecode, kGraph}, 2, {"MISSING", "MISSING"}},
        {"one_name_in_none", {"--paths", "nvcc_fused,aiter_fused", kDecode}, 2, {"MISSING"}},
        {"one_thread", {"--threads", "1", "--paths", "nvcc_fused", kDecode}, 0, {"PASSED"}},
    }),
    [](const auto& row) { return std::string(row.param.name); });

// Counts that an independent evaluation of the contract found in the captured calls.
TEST(Verify, FindsTheKnownDifferences) {
  const Json report = report_of({"verify", "--device", "none", kDecode, kPrefill, kGraph});
  const Json& decode = report.at("cases").at(0);
  EXPECT_EQ(comparison_of(decode, "atom_fused", "k_cache").at("mismatches"), 27);
  EXPECT_EQ(comparison_of(decode, "atom_fused", "k_cache").at("elements"), 229376);
  EXPECT_EQ(comparison_of(decode, "atom_fused", "k_cache").at("max_ulp"), 1);
  EXPECT_EQ(comparison_of(decode, "atom_fused", "index_cache").at("mismatches"), 18);
  EXPECT_EQ(comparison_of(decode, "atom_fused", "q").at("verdict"), "identical");
  EXPECT_EQ(comparison_of(report.at("cases").at(1), "nvcc_fused", "q").at("mismatches"), 1);
  for (const Json& one : report.at("cases")) {
    for (const char* path : {"nvcc_fused", "torch_unfused"}) {
      for (const char* cache : {"k_cache", "v_cache", "index_cache"}) {
        EXPECT_EQ(comparison_of(one, path, cache).at("verdict"), "identical") << path << cache;
      }
    }
  }
}

TEST(Verify, PlacesADifferenceInTheCall) {
  const TemporaryFolder folder;
  const auto file = folder / "altered.h5";
  add_altered_path(kDecode, file, "nvcc_fused", "altered", [](Outputs& outputs) {
    outputs.q.as<std::uint16_t>()[3 * 2048 + 5 * 128 + 17] ^= 0x0100U;
  });
  int exit_code = -1;
  const Json report =
      report_of({"verify", "--device", "none", "--paths", "altered", file.string()}, &exit_code);
  EXPECT_EQ(exit_code, 1);
  const Json q = comparison_of(report.at("cases").at(0), "altered", "q");
  EXPECT_EQ(q.at("mismatches"), 1);
  EXPECT_TRUE(q.at("gates"));
  const Json& where = q.at("worst").at("where");
  EXPECT_EQ(where.at("token"), 3);
  EXPECT_EQ(where.at("head"), 5);
  EXPECT_EQ(where.at("dim"), 17);
  EXPECT_EQ(where.at("position"), 200);
}

TEST(Verify, CountsANanAsInfinitelyFarOff) {
  const TemporaryFolder folder;
  const auto file = folder / "nan.h5";
  add_altered_path(kDecode, file, "nvcc_fused", "nan",
                   [](Outputs& outputs) { outputs.q.as<std::uint16_t>()[0] = 0x7fc0; });
  const Json report = report_of({"verify", "--device", "none", "--paths", "nan", file.string()});
  const Json q = comparison_of(report.at("cases").at(0), "nan", "q");
  EXPECT_EQ(q.at("max_abs_error"), "inf");
  EXPECT_EQ(q.at("max_ulp"), "nan");
  EXPECT_EQ(q.at("worst").at("got"), "nan");
  EXPECT_EQ(q.at("detail").at("nan_mismatches"), 1);
}

// A stray store is a difference though no token of the call maps there.
TEST(Verify, SeesAByteThatNoSlotMapsTo) {
  const TemporaryFolder folder;
  const auto file = folder / "stray.h5";
  add_altered_path(kDecode, file, "nvcc_fused", "stray",
                   [](Outputs& outputs) { outputs.v_cache.as<std::uint8_t>().back() ^= 1; });
  int exit_code = -1;
  const Json report =
      report_of({"verify", "--device", "none", "--paths", "stray", file.string()}, &exit_code);
  EXPECT_EQ(exit_code, 1);
  const Json v = comparison_of(report.at("cases").at(0), "stray", "v_cache");
  EXPECT_EQ(v.at("mismatches"), 1);
  for (const Json& region : v.at("detail").at("regions")) {
    EXPECT_EQ(region.at("mismatches"), region.at("name") == "untouched" ? 1 : 0);
  }
}

TEST(Verify, PathsAskedForInACaptureWithoutAny) {
  const TemporaryFolder folder;
  const auto file = (folder / "bare.h5").string();
  write_without_paths(kDecode, file);
  EXPECT_EQ(run_tool({"verify", "--device", "none", file}).exit_code, 0);
  for (const auto& gate : {std::vector<std::string>{"--strict"}, {"--paths", "all"}}) {
    std::vector<std::string> arguments{"verify", "--device", "none", file};
    arguments.insert(arguments.end(), gate.begin(), gate.end());
    const ToolRun alone = run_tool(arguments);
    EXPECT_EQ(alone.exit_code, 2) << gate.front();
    EXPECT_TRUE(is_one_error_line(alone.err)) << alone.err;
    arguments.push_back(kGraph);
    const ToolRun beside = run_tool(arguments);
    EXPECT_EQ(beside.exit_code, 1) << gate.front();
    EXPECT_TRUE(contains(beside.out, "1 passed, 0 failed, 1 missing")) << beside.out;
  }
}

// A path without anything that the reference makes must not pass for having been compared.
TEST(Verify, PathWithNothingToCompareDoesNotPass) {
  const TemporaryFolder folder;
  const auto file = (folder / "empty.h5").string();
  add_altered_path(kDecode, file, "nvcc_fused", "hollow", [](Outputs& outputs) { outputs = {}; });
  EXPECT_EQ(run_tool({"verify", "--device", "none", "--paths", "hollow", file}).exit_code, 2);
  EXPECT_EQ(
      run_tool({"verify", "--device", "none", "--paths", "hollow,nvcc_fused", file}).exit_code, 1);
  EXPECT_EQ(run_tool({"verify", "--device", "none", file}).exit_code, 0);
}

TEST(Verify, GatesOnTheSlotMapAlways) {
  const TemporaryFolder folder;
  const auto good = (folder / "good.h5").string();
  const auto swapped = (folder / "swapped.h5").string();
  const auto doubled = (folder / "doubled.h5").string();
  write_graph_call(good, [](LayerCall&) {});
  write_graph_call(swapped, [](LayerCall& call) {
    auto slots = call.page16_slot_mapping.as<std::int64_t>();
    std::swap(slots[1], slots[3]);
  });
  write_graph_call(doubled, [](LayerCall& call) {
    auto slots = call.page16_slot_mapping.as<std::int64_t>();
    slots[1] = slots[3];
  });
  int exit_code = -1;
  const Json report = report_of({"verify", good, swapped, doubled}, &exit_code);
  EXPECT_EQ(exit_code, 1);
  EXPECT_EQ(outcomes(report), (std::vector<std::string>{"PASSED", "FAILED", "FAILED"}));
  const Json& map = report.at("cases").at(1).at("slot_map");
  EXPECT_EQ(map.at("verdict"), "not_equivalent");
  EXPECT_EQ(map.at("differing_rows"), 2);
  EXPECT_EQ(map.at("first_difference").at("row"), 1);
  EXPECT_EQ(report.at("cases").at(2).at("slot_map").at("duplicates"), 1);
}

// A captured path may have the reference's name: it is judged like any other.
TEST(Verify, JudgesACapturedPathCalledReference) {
  const TemporaryFolder folder;
  const auto file = (folder / "named.h5").string();
  add_altered_path(kDecode, file, "atom_fused", "reference", [](Outputs&) {});
  EXPECT_EQ(run_tool({"verify", "--device", "none", file}).exit_code, 0);
  int exit_code = -1;
  const Json report =
      report_of({"verify", "--device", "none", "--paths", "reference", file}, &exit_code);
  EXPECT_EQ(exit_code, 1);
  const Json k = comparison_of(report.at("cases").at(0), "reference (captured)", "k_cache");
  EXPECT_EQ(k.at("mismatches"), 27);
}

// Paths are read one at a time; a sanitizer's own memory comes on top.
TEST(Verify, TakesLittleMemory) {
#ifdef __SANITIZE_ADDRESS__
  constexpr std::int64_t kMostKib = 800 * 1024;
#else
  constexpr std::int64_t kMostKib = 200 * 1024;
#endif
  const ToolRun run = run_tool({"verify", kDecode});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_GT(run.peak_kib, 0);
  EXPECT_LT(run.peak_kib, kMostKib);
}

TEST(Verify, PrintsTheSameTwice) {
  const std::vector<std::string> arguments{"verify", "--device", "none", "--strict",
                                           kDecode,  kPrefill,   kGraph};
  const ToolRun first = run_tool(arguments);
  EXPECT_EQ(first.exit_code, 1);
  EXPECT_EQ(first.out, run_tool(arguments).out);
}

TEST(Verify, ReportFitsAHundredColumns) {
  const ToolRun run = run_tool({"verify", "--paths", "atom_fused", kDecode, kPrefill, kGraph});
  for (const std::string& line : lines_of(run.out)) {
    if (contains(line, "re-run: ")) continue;
    std::size_t columns = 0;
    for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xc0U) != 0x80U ? 1 : 0;
    EXPECT_LE(columns, 100U) << line;
    EXPECT_FALSE(line.ends_with(' ')) << "'" << line << "'";
  }
}

TEST(Verify, ReportNamesWhatAPersonLooksFor) {
  const ToolRun run = run_tool({"verify", "--paths", "atom_fused", kDecode});
  for (const char* part :
       {"heads 16/1/1, rotary 64, bf16, kv fp8_e4m3fn, eager decode, 5 tokens", "max abs error",
        "229,376", "token 0", "slot map", "breaks code: 27 of 640", "warnings", "not exercised",
        "FAILED", "re-run: zerodiff verify --paths atom_fused fixtures/captured/"}) {
    EXPECT_TRUE(contains(run.out, part)) << part << "\n" << run.out;
  }
  EXPECT_EQ(lines_of(run.out).back(), "0 passed, 1 failed");
  EXPECT_EQ(run.err, "");
}

TEST(Verify, ReRunLineRepeatsTheCase) {
  const TemporaryFolder folder;
  const auto file = (folder / "it's $HOME.h5").string();
  std::filesystem::copy_file(kDecode, file);
  const Json report = report_of(
      {"verify", "--device", "none", "--paths", "atom_fused", "--max-memory", "1G", file});
  const std::string line = report.at("cases").at(0).at("rerun");
  ASSERT_TRUE(line.starts_with("zerodiff verify ")) << line;
  const std::string command =
      "'" ZERODIFF_TOOL "'" + line.substr(std::string("zerodiff").size()) + " --json - 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  const int status = pclose(pipe);
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_EQ(without_times(Json::parse(text)), without_times(report));
}

}  // namespace
}  // namespace zerodiff::test
