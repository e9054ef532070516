// The three small captures: what an independent evaluation of the contract found in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "compare/fp8_contract.h"
#include "compare/not_exercised.h"
#include "compare/output_comparison.h"
#include "compare/slot_map.h"
#include "fixtures/capture.h"
#include "reference/layer.h"

namespace zerodiff::compare {
namespace {

// A capture, judged against the reference's insertion.
class JudgedCapture {
 public:
  explicit JudgedCapture(const std::string& name)
      : reader(std::string("fixtures/captured/") + name + ".h5", {.probe_in_child = false}),
        expected(reference::run_insertion(reader.call(), {}, 2)) {}

  // Comparisons with the path, by output; only those that were judged.
  std::map<std::string, Comparison> compare(const std::string& path) {
    std::map<std::string, Comparison> result;
    for (Comparison& comparison :
         compare_outputs(reader.call(), expected, "reference", reader.read_path(path), path)) {
      if (comparison.verdict != Verdict::absent) result[comparison.output] = comparison;
    }
    return result;
  }

  std::map<std::string, Fp8TensorReport> fp8(const std::string& path) {
    const Outputs outputs = reader.read_path(path);
    std::map<std::string, Fp8TensorReport> result;
    for (const Fp8TensorReport& tensor :
         fp8_contract_report(reader.call(), {{path, &outputs}}).tensors) {
      result[tensor.tensor] = tensor;
    }
    return result;
  }

  CaptureReader reader;
  Outputs expected;
};

using FileAndPath = std::pair<std::string, std::string>;

class CanonicalCaches : public testing::TestWithParam<FileAndPath> {};

TEST_P(CanonicalCaches, HoldTheContractsBytes) {
  JudgedCapture capture(GetParam().first);
  const auto comparisons = capture.compare(GetParam().second);
  for (const char* output : {"k_cache", "v_cache", "index_cache"}) {
    ASSERT_TRUE(comparisons.contains(output)) << output;
    EXPECT_EQ(comparisons.at(output).verdict, Verdict::identical) << output;
    EXPECT_GT(comparisons.at(output).regions.at(0).tally.elements, 0) << output;
  }
  for (const auto& [name, tensor] : capture.fp8(GetParam().second)) {
    EXPECT_TRUE(tensor.conforms) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(SmallFiles, CanonicalCaches,
                         testing::Values(FileAndPath{"m3_small_decode_fp8", "nvcc_fused"},
                                         FileAndPath{"m3_small_decode_fp8", "torch_unfused"},
                                         FileAndPath{"m3_small_prefill_bf16", "nvcc_fused"},
                                         FileAndPath{"m3_small_prefill_bf16", "torch_unfused"},
                                         FileAndPath{"m3_small_graph_fp8_scaled", "nvcc_fused"},
                                         FileAndPath{"m3_small_graph_fp8_scaled", "torch_unfused"}),
                         [](const auto& c) { return c.param.first + "_" + c.param.second; });

// ATOM quantises from fp32: another code now and then, always the next one.
TEST(AtomFused, DiffersFromTheDeclaredContractByOneCodeHereAndThere) {
  JudgedCapture capture("m3_small_decode_fp8");
  const auto comparisons = capture.compare("atom_fused");
  EXPECT_EQ(comparisons.at("q").verdict, Verdict::identical);
  EXPECT_EQ(comparisons.at("k_cache").total.mismatches, 27);
  EXPECT_EQ(comparisons.at("k_cache").total.max_ulp, 1U);
  EXPECT_EQ(comparisons.at("k_cache").regions.at(1).tally.mismatches, 0);
  EXPECT_EQ(comparisons.at("v_cache").verdict, Verdict::identical);
  EXPECT_EQ(comparisons.at("index_cache").total.mismatches, 18);
  EXPECT_EQ(comparisons.at("index_cache").total.max_ulp, 1U);

  const auto fp8 = capture.fp8("atom_fused");
  EXPECT_FALSE(fp8.at("k").conforms);
  EXPECT_EQ(fp8.at("k").clauses.at(0).violations, 27);
  EXPECT_THAT(fp8.at("k").clauses.at(0).detail, testing::HasSubstr("27 of 27 by one code"));
  EXPECT_EQ(fp8.at("k").clauses.at(1).violations, 0);
  EXPECT_TRUE(fp8.at("v").conforms);
  EXPECT_EQ(fp8.at("index_k").clauses.at(0).violations, 18);
  EXPECT_EQ(fp8.at("index_k").clauses.at(3).violations, 0);
}

TEST(NvccFused, QIsOneRsqrtUlpOffInOneElementOfThePrefillFile) {
  JudgedCapture capture("m3_small_prefill_bf16");
  const Comparison q = capture.compare("nvcc_fused").at("q");
  EXPECT_EQ(q.total.elements, 47104);
  EXPECT_EQ(q.total.mismatches, 1);
  EXPECT_EQ(q.total.max_ulp, 1U);
}

TEST(CapturedCalls, SlotMapsDoNotApplyAndAgreeWithTheBlockTable) {
  for (const char* name :
       {"m3_small_decode_fp8", "m3_small_prefill_bf16", "m3_small_graph_fp8_scaled"}) {
    const JudgedCapture capture(name);
    const SlotMapReport report = slot_map_report(capture.reader.call());
    EXPECT_EQ(report.verdict, SlotMapVerdict::not_applicable) << name;
    EXPECT_EQ(report.reason, "the call has no page16_slot_mapping");
    EXPECT_TRUE(report.block_table_checked) << name;
    EXPECT_EQ(report.block_table_disagreements, 0) << name;
    EXPECT_EQ(report.index_block_table_disagreements, 0) << name;
    EXPECT_GT(report.stored_rows, 0) << name;
  }
}

TEST(CapturedCalls, OnlyTheScaledFileExercisesScales) {
  const auto has = [](const char* name, const std::string& id) {
    const JudgedCapture capture(name);
    for (const std::string& line : not_exercised(capture.reader.call(), {})) {
      if (line.starts_with(id + ": ")) return true;
    }
    return false;
  };
  EXPECT_TRUE(has("m3_small_decode_fp8", "unit_scales"));
  EXPECT_TRUE(has("m3_small_decode_fp8", "no_padding_rows"));
  EXPECT_TRUE(has("m3_small_prefill_bf16", "no_fp8_kv_cache"));
  EXPECT_FALSE(has("m3_small_prefill_bf16", "no_16bit_cache"));
  EXPECT_FALSE(has("m3_small_graph_fp8_scaled", "unit_scales"));
  EXPECT_FALSE(has("m3_small_graph_fp8_scaled", "equal_scales"));
  EXPECT_FALSE(has("m3_small_graph_fp8_scaled", "no_padding_rows"));
  for (const char* name :
       {"m3_small_decode_fp8", "m3_small_prefill_bf16", "m3_small_graph_fp8_scaled"}) {
    EXPECT_TRUE(has(name, "no_graph_buffer")) << name;
    EXPECT_TRUE(has(name, "no_init_blocks")) << name;
    EXPECT_FALSE(has(name, "no_attention_metadata")) << name;
  }
}

}  // namespace
}  // namespace zerodiff::compare
