// `zerodiff verify` on kernels that nobody here wrote: what is legal, what is allowed, what a path
// claims.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "fixtures/capture.h"
#include "tests/fixtures/capture_files.h"
#include "tests/tools/report_reading.h"
#include "tests/tools/tool_runner.h"

namespace zerodiff::test {
namespace {

const std::string kDecode = captured("decode_fp8");
const std::string kPrefill = captured("prefill_bf16");

Json case_of(std::vector<std::string> arguments, int* exit_code = nullptr) {
  arguments.insert(arguments.begin(), {"verify", "--device", "none"});
  return report_of(std::move(arguments), exit_code).at("cases").at(0);
}

TEST(VerifyLegal, CudaAndTorchKernelsPass) {
  for (const std::string& file : {kDecode, kPrefill, captured("graph_fp8_scaled")}) {
    int exit_code = -1;
    case_of({"--paths", "nvcc_fused,torch_unfused", file}, &exit_code);
    EXPECT_EQ(exit_code, 0) << file;
  }
}

TEST(VerifyLegal, OneUlpOfRsqrtIsLegalAndCounted) {
  const Json q = comparison_of(case_of({kPrefill}), "nvcc_fused", "q");
  EXPECT_EQ(q.at("verdict"), "legal");
  const Json& legal = q.at("detail").at("legal");
  EXPECT_EQ(legal.at("summary"), "rsqrt in 1 head");
  EXPECT_EQ(legal.at("heads"), 368);
  EXPECT_EQ(legal.at("heads_by_ulp").at("1"), 1);
  EXPECT_EQ(legal.at("heads_by_ulp").at("0"), 367);
  EXPECT_EQ(legal.at("elements_explained"), 1);
  EXPECT_EQ(legal.at("first_unexplained"), nullptr);
}

TEST(VerifyLegal, QuantisingFromFp32IsAFaultUnlessAllowed) {
  const Json strict = case_of({"--paths", "atom_fused", kDecode});
  for (const char* cache : {"k_cache", "index_cache"}) {
    const Json comparison = comparison_of(strict, "atom_fused", cache);
    EXPECT_EQ(comparison.at("verdict"), "fault") << cache;
    EXPECT_EQ(comparison.at("detail").at("legal").at("heads_unexplained"), 5) << cache;
  }
  const Json allowed = case_of({"--paths", "atom_fused", "--allow", "quantize_from=fp32", kDecode});
  for (const char* cache : {"k_cache", "index_cache"}) {
    const Json comparison = comparison_of(allowed, "atom_fused", cache);
    EXPECT_EQ(comparison.at("verdict"), "legal") << cache;
    EXPECT_EQ(comparison.at("detail").at("legal").at("summary"), "quantize_from fp32") << cache;
  }
  for (const Json& tensor : allowed.at("fp8_contract").at("tensors")) {
    if (tensor.at("path") != "atom_fused" || tensor.at("conforms")) continue;
    EXPECT_FALSE(tensor.at("gates"));
    EXPECT_EQ(tensor.at("explained_by"), "quantize_from fp32");
  }
  EXPECT_TRUE(std::string(allowed.at("rerun")).find(" --allow quantize_from=fp32 ") !=
              std::string::npos);
}

// Insertion alone of atom_fused: nothing else of it decides.
class AtomInsertion : public testing::TestWithParam<std::pair<std::vector<std::string>, int>> {};

TEST_P(AtomInsertion, ExitsAsTheContractSays) {
  const TemporaryFolder folder;
  const auto file = folder / "insertion.h5";
  CaptureReader reader(kDecode, in_process());
  Outputs outputs = reader.read_path("atom_fused");
  outputs.attn_output = {};
  add_path(kDecode, file, {"insertion", &outputs, {}});
  std::vector<std::string> arguments = GetParam().first;
  arguments.insert(arguments.end(), {"--paths", "insertion", file.string()});
  int exit_code = -1;
  case_of(arguments, &exit_code);
  EXPECT_EQ(exit_code, GetParam().second);
}

using Options = std::vector<std::string>;
INSTANTIATE_TEST_SUITE_P(
    Contracts, AtomInsertion,
    testing::Values(std::pair{Options{}, 1}, std::pair{Options{"--allow", "quantize_from=fp32"}, 0},
                    std::pair{Options{"--contract", "atom"}, 0},
                    std::pair{Options{"--contract", "aiter"}, 1},
                    std::pair{Options{"--contract", "aiter", "--allow", "quantize_from=fp32"}, 0},
                    std::pair{Options{"--allow", "scale_op=divide"}, 1}));

// A contract that is not the call's: what follows the call's own is then a fault.
TEST(VerifyLegal, AContractReplacesTheCalls) {
  int exit_code = -1;
  const Json result = case_of({"--contract", "atom", "--paths", "nvcc_fused", kDecode}, &exit_code);
  EXPECT_EQ(exit_code, 1);
  EXPECT_EQ(comparison_of(result, "nvcc_fused", "k_cache").at("verdict"), "fault");
  EXPECT_EQ(comparison_of(result, "nvcc_fused", "q").at("verdict"), "identical");
  EXPECT_EQ(comparison_of(result, "atom_fused", "k_cache").at("verdict"), "identical");
}

TEST(VerifyLegal, AContractFileThatAllowsNothingMakesRsqrtAFault) {
  const TemporaryFolder folder;
  const auto file = (folder / "strict.json").string();
  std::ofstream(file) << R"({"zerodiff_contract": 1, "choices": {}})";
  int exit_code = -1;
  const Json result = case_of({"--contract", file, "--paths", "nvcc_fused", kPrefill}, &exit_code);
  EXPECT_EQ(exit_code, 1);
  EXPECT_EQ(comparison_of(result, "nvcc_fused", "q").at("verdict"), "fault");
}

TEST(VerifyLegal, BadContractsAreBadUsage) {
  for (const std::vector<std::string>& options : {Options{"--allow", "quantize_from"},
                                                  {"--allow", "speed=fast"},
                                                  {"--contract", "nobody"},
                                                  {"--contract", "README.md"},
                                                  {"--contract", "docs/report.schema.json"}}) {
    std::vector<std::string> arguments{"verify", "--device", "none", kDecode};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ToolRun run = run_tool(arguments);
    EXPECT_EQ(run.exit_code, 2) << options.back();
    EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
    EXPECT_EQ(run.out, "") << options.back();
  }
}

TEST(VerifyLegal, AClaimOfAnotherContractIsShownAndGates) {
  const TemporaryFolder folder;
  const auto file = folder / "claims.h5";
  CaptureReader reader(kDecode, in_process());
  const Outputs outputs = reader.read_path("nvcc_fused");
  add_path(kDecode, file,
           {"claiming",
            &outputs,
            {{"quantize_from", std::string("fp32")}, {"overflow", std::string("saturate")}}});
  const std::vector<std::string> gate{"--paths", "claiming", file.string()};
  int exit_code = -1;
  const Json result = case_of(gate, &exit_code);
  EXPECT_EQ(exit_code, 1);
  EXPECT_EQ(result.at("reason"),
            "claiming: claims quantize_from fp32, the contract has model_dtype");
  ASSERT_EQ(result.at("claims").size(), 2U);
  EXPECT_EQ(result.at("claims").at(0).at("name"), "overflow");
  EXPECT_FALSE(result.at("claims").at(0).at("contradicts"));
  EXPECT_TRUE(result.at("claims").at(1).at("contradicts"));
  case_of({"--paths", "claiming", "--allow", "quantize_from=fp32", file.string()}, &exit_code);
  EXPECT_EQ(exit_code, 0);
  const ToolRun shown = run_tool({"verify", "--device", "none", file.string()});
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_TRUE(
      contains(shown.out, "claiming: quantize_from fp32 (the contract has model_dtype, and"))
      << shown.out;
}

TEST(VerifyLegal, TheTableNamesTheChoices) {
  const ToolRun run =
      run_tool({"verify", "--device", "none", "--allow", "quantize_from=fp32", kDecode, kPrefill});
  for (const char* part : {"legal  quantize_from fp32", "rsqrt +1 ulp in 1 head",
                           "with 1 of 1 differing element", "but    legal: quantize_from fp32"}) {
    EXPECT_TRUE(contains(run.out, part)) << part << "\n" << run.out;
  }
  const ToolRun strict = run_tool({"verify", "--device", "none", kDecode});
  EXPECT_TRUE(contains(strict.out, "no allowed choice explains 5 of 5 heads (27 elements)"))
      << strict.out;
}

}  // namespace
}  // namespace zerodiff::test
