// `zerodiff explain`.
#include <gtest/gtest.h>

#include "tests/tools/report_reading.h"
#include "tests/tools/tool_runner.h"

namespace zerodiff::test {
namespace {

const std::string kDecode = captured("decode_fp8");
const std::string kPrefill = captured("prefill_bf16");

const Json& output_of(const Json& report, const std::string& name) {
  for (const Json& output : report.at("explanation").at("outputs")) {
    if (output.at("output") == name) return output;
  }
  ADD_FAILURE() << "no output " << name;
  static const Json kNone;
  return kNone;
}

TEST(Explain, NamesTheRoundingChainOfAtomFused) {
  const ToolRun run = run_tool({"explain", kDecode, "--path", "atom_fused", "--output", "k_cache"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
  for (const char* part : {"27 of 229,376 elements differ",
                           "fp8-rounding-chain: quantised from fp32, not from bfloat16",
                           "explains 27 of 27", "expected 0xaa (-0.3125), got 0xab (-0.34375)",
                           "norm factor r", "normalised y", "rotated z", "contract", "hypothesis",
                           "source fp32 (27 elements), declared model_dtype", "token 4"}) {
    EXPECT_TRUE(contains(run.out, part)) << part << "\n" << run.out;
  }
  EXPECT_FALSE(contains(run.out, "index_cache")) << run.out;
  for (const std::string& line : lines_of(run.out)) {
    EXPECT_FALSE(line.ends_with(' ')) << line;
    EXPECT_LE(line.size(), 100U) << line;
  }
}

TEST(Explain, TellsTheHistoryUnderTheHypothesisAsWell) {
  const Json report = report_of({"explain", kDecode, "--path", "atom_fused", "--elements", "30"});
  const Json& k = output_of(report, "k_cache").at("diagnoses").at(0);
  EXPECT_EQ(k.at("id"), "fp8-rounding-chain");
  EXPECT_EQ(k.at("stage"), "reshape_and_cache");
  ASSERT_EQ(k.at("history").size(), 27U);
  for (const Json& element : k.at("history")) {
    EXPECT_EQ(element.at("contract").at("bits"), element.at("expected_bits"));
    EXPECT_EQ(element.at("hypothesis").at("bits"), element.at("got_bits"));
    EXPECT_EQ(element.at("contract").at("rotated"), element.at("hypothesis").at("rotated"));
  }
  EXPECT_EQ(output_of(report, "index_cache").at("diagnoses").at(0).at("stage"),
            "index_cache_insert");
  for (const char* same : {"q", "index_q", "v_cache"}) {
    EXPECT_EQ(output_of(report, same).at("verdict"), "identical");
    EXPECT_TRUE(output_of(report, same).at("diagnoses").empty());
  }
}

TEST(Explain, OwnPathsAreIdentical) {
  for (const char* path : {"reference", "fused"}) {
    const Json report = report_of({"explain", kPrefill, "--path", path});
    EXPECT_EQ(report.at("explanation").at("outputs").size(), 5U);
    for (const Json& output : report.at("explanation").at("outputs")) {
      EXPECT_EQ(output.at("verdict"), "identical") << path;
    }
  }
}

TEST(Explain, ALegalRsqrtIsNoFault) {
  const ToolRun run = run_tool({"explain", kPrefill, "--path", "nvcc_fused", "--output", "q"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_TRUE(contains(run.out, "rsqrt: no fault")) << run.out;
}

TEST(VerifyDiagnosis, NamesTheFaultAndWhatTheCodesTell) {
  const std::vector<std::string> arguments{"verify",  "--device",   "none",
                                           "--paths", "atom_fused", kDecode};
  const ToolRun run = run_tool(arguments);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(contains(run.out, "fp8-rounding-chain: quantised from fp32")) << run.out;
  EXPECT_TRUE(contains(run.out, "source fp32 (27 elements), declared")) << run.out;
  const Json report = report_of(arguments);
  const Json& judged = report.at("cases").at(0);
  for (const char* output : {"k_cache", "index_cache"}) {
    const Json comparison = comparison_of(judged, "atom_fused", output);
    ASSERT_EQ(comparison.at("detail").at("diagnoses").size(), 1U) << output;
    EXPECT_EQ(comparison.at("detail").at("diagnoses").at(0).at("id"), "fp8-rounding-chain");
  }
  EXPECT_FALSE(comparison_of(judged, "nvcc_fused", "k_cache").at("detail").contains("diagnoses"));
  for (const Json& tensor : judged.at("fp8_contract").at("tensors")) {
    EXPECT_EQ(tensor.contains("inference"), tensor.at("path") != "reference");
  }
}

struct BadUse {
  const char* name;
  std::vector<std::string> arguments;
  const char* message;
};

const BadUse kBadUses[] = {
    {"path_missing", {"explain", kDecode}, "--path"},
    {"path_unknown", {"explain", kDecode, "--path", "nobody"}, "nobody"},
    {"output_unknown",
     {"explain", kDecode, "--path", "atom_fused", "--output", "attn_output"},
     "attn_output"},
    {"output_of_another_storage",
     {"explain", kDecode, "--path", "atom_fused", "--output", "kv_cache"},
     "kv_cache"},
    {"no_such_file", {"explain", "nowhere.h5", "--path", "atom_fused"}, "nowhere.h5"},
};

class ExplainBadUse : public testing::TestWithParam<BadUse> {};

TEST_P(ExplainBadUse, IsOneLineAndExitCodeTwo) {
  const ToolRun run = run_tool(GetParam().arguments);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
  EXPECT_TRUE(contains(run.err, GetParam().message)) << run.err;
}

INSTANTIATE_TEST_SUITE_P(All, ExplainBadUse, testing::ValuesIn(kBadUses),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace zerodiff::test
