// Diagnoses of captured kernels, and what a diagnosis holds.
#include <gtest/gtest.h>

#include <algorithm>

#include "compare/diagnose.h"
#include "compare/element_history.h"
#include "fixtures/capture.h"
#include "reference/layer.h"
#include "tests/compare/small_call.h"
#include "tests/compare/tensor_bits.h"

namespace zerodiff::compare {
namespace {

CaptureReader small_capture(const std::string& name) {
  return CaptureReader("fixtures/captured/m3_small_" + name + ".h5", {.probe_in_child = false});
}

TEST(DiagnosisOfCaptures, AtomFusedQuantisesFromFp32) {
  CaptureReader reader = small_capture("decode_fp8");
  const Outputs expected = reference::run_insertion(reader.call(), {}, 1);
  const auto diagnoses = diagnose_insertion(reader.call(), expected, reader.read_path("atom_fused"),
                                            "atom_fused", {.choices = {}, .threads = 1});
  ASSERT_EQ(diagnoses.size(), 2U);
  EXPECT_EQ(diagnoses[0].tensor, "k");
  EXPECT_EQ(diagnoses[1].tensor, "index_k");
  EXPECT_EQ(diagnoses[0].mismatches, 27);
  EXPECT_EQ(diagnoses[1].mismatches, 18);
  for (const Diagnosis& diagnosis : diagnoses) {
    EXPECT_EQ(diagnosis.id(), "fp8-rounding-chain") << describe(diagnosis);
    EXPECT_EQ(diagnosis.best->explained, diagnosis.mismatches);
    EXPECT_EQ(diagnosis.best->contradicted, 0);
  }
}

TEST(DiagnosisOfCaptures, NothingIsSaidOfIdenticalOutputs) {
  CaptureReader reader = small_capture("decode_fp8");
  const Outputs expected = reference::run_insertion(reader.call(), {}, 1);
  EXPECT_TRUE(diagnose_insertion(reader.call(), expected, expected, "reference",
                                 {.choices = {}, .threads = 1})
                  .empty());
  EXPECT_TRUE(diagnose_insertion(reader.call(), expected, reader.read_path("nvcc_fused"),
                                 "nvcc_fused", {.choices = {}, .threads = 1})
                  .empty());
}

TEST(DiagnosisOfCaptures, AnotherRsqrtIsNoFault) {
  CaptureReader reader = small_capture("prefill_bf16");
  const Outputs expected = reference::run_insertion(reader.call(), {}, 1);
  const auto diagnoses = diagnose_insertion(reader.call(), expected, reader.read_path("nvcc_fused"),
                                            "nvcc_fused", {.choices = {}, .threads = 1});
  ASSERT_EQ(diagnoses.size(), 1U);
  EXPECT_EQ(diagnoses[0].tensor, "q");
  EXPECT_EQ(diagnoses[0].id(), "rsqrt");
}

TEST(Diagnosis, NoiseIsUnexplained) {
  const LayerCall call = generate_call(small_options(3));
  const Outputs expected = reference::run_insertion(call, {}, 1);
  Outputs got = expected;
  // The last mantissa bit of every third element of the upper half of head 1 of q in rows 4 to 8.
  const std::int64_t width = call.config.num_heads * kHeadDim;
  std::int64_t changed = 0;
  for (std::int64_t row = 4; row < call.config.num_tokens; ++row) {
    for (std::int64_t d = 64; d < kHeadDim; d += 3) {
      const std::int64_t flat = row * width + kHeadDim + d;
      set_bits(got.q, flat, get_bits(got.q, flat) ^ 0x0010);
      ++changed;
    }
  }
  const auto diagnoses =
      diagnose_insertion(call, expected, got, "noisy", {.choices = {}, .threads = 1});
  ASSERT_EQ(diagnoses.size(), 1U);
  EXPECT_FALSE(diagnoses[0].explained()) << describe(diagnoses[0]);
  EXPECT_EQ(diagnoses[0].id(), "unexplained");
  EXPECT_EQ(diagnoses[0].mismatches, changed);
  EXPECT_EQ(diagnoses[0].pattern, "rows >= 4, head 1 only, dims >= 64");
  EXPECT_NE(describe(diagnoses[0]).find("unexplained"), std::string::npos);
}

TEST(Diagnosis, DoesNotDependOnThreads) {
  LayerCall call = generate_call(small_fp8_options(ElementType::float8_e4m3fn, 5));
  const Outputs expected = reference::run_insertion(call, {}, 1);
  reference::Choices choices;
  choices.norm_materialised = true;
  const Outputs got = reference::run_insertion(call, choices, 1);
  const auto one = diagnose_insertion(call, expected, got, "p", {.choices = {}, .threads = 1});
  const auto three = diagnose_insertion(call, expected, got, "p", {.choices = {}, .threads = 3});
  ASSERT_EQ(one.size(), three.size());
  ASSERT_FALSE(one.empty());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(describe(one[i]), describe(three[i]));
}

// An index cache that must not change, and did.
TEST(Diagnosis, TellsOfAnIndexCacheWrittenUnderSkipIndexBranch) {
  GeneratorOptions options = small_options(9);
  options.config.skip_index_branch = true;
  LayerCall call = generate_call(options);
  call.index_cache = Tensor::zeros(call.index_cache_type(), {call.num_blocks(), 128, 128});
  const Outputs expected = reference::run_insertion(call, {}, 1);
  Outputs got = expected;
  got.index_cache = call.index_cache;
  set_bits(got.index_cache, 130 * kHeadDim + 5, 0x3F80);
  const auto diagnoses =
      diagnose_insertion(call, expected, got, "p", {.choices = {}, .threads = 1});
  ASSERT_EQ(diagnoses.size(), 1U);
  EXPECT_EQ(diagnoses[0].tensor, "index_k");
  EXPECT_EQ(diagnoses[0].stray_slots, std::vector<std::int64_t>{130});
  EXPECT_TRUE(diagnoses[0].tokens.empty());
}

TEST(ElementHistory, EndsInTheReferencesBits) {
  const LayerCall call = generate_call(small_fp8_options(ElementType::float8_e4m3fnuz, 4));
  const Outputs expected = reference::run_insertion(call, {}, 1);
  const HeadContract contract(call);
  for (const std::int64_t row : stored_rows(call)) {
    for (std::int64_t dim = 0; dim < kHeadDim; dim += 5) {
      const HeadAt at{Branch::k, row, 1};
      const ElementHistory history = element_history(contract, nullptr, at, dim);
      EXPECT_EQ(history.contract.bits, get_bits(expected.k_cache, contract.place(at, dim)));
      EXPECT_FALSE(history.hypothesis.has_value());
      EXPECT_EQ(history.scale, 0.07F);
    }
  }
}

}  // namespace
}  // namespace zerodiff::compare
