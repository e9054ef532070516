// Right kernels of every shape stay within the bound of attention, on random inputs of every cache
// type and on what a real kernel left.
#include "compare/attention_bound.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fixtures/capture.h"
#include "reference/layer.h"
#include "tests/compare/attention_inputs.h"
#include "tests/compare/softmax_kernel.h"

namespace zerodiff::compare {
namespace {

const std::vector<std::int64_t> kPositions{0, 15, 16, 100, 127, 128, 300, 700};

std::vector<SoftmaxKernel> legal_kernels() {
  std::vector<SoftmaxKernel> kernels(11);
  kernels[0] = {.name = "one_pass_of_64"};
  kernels[1] = {.name = "tiles_of_16", .tile = 16};
  kernels[2] = {.name = "tiles_of_128_three_splits", .tile = 128, .splits = 3};
  kernels[3] = {.name = "eight_splits_log_sum_exp", .splits = 8, .log_sum_exp = true};
  kernels[4] = {.name = "truncating", .tile = 32, .order = SumOrder::truncated};
  kernels[5] = {.name = "pairwise_sums", .splits = 2, .order = SumOrder::pairwise};
  kernels[6] = {.name = "reversed_without_fma", .order = SumOrder::reversed, .fused = false};
  kernels[7] = {.name = "fused_scale_exp2_two_ulp", .fused_scale = true, .exp2_ulp = 2};
  kernels[8] = {.name = "natural_exponential", .tile = 128, .natural = true, .exp2_ulp = 1};
  kernels[9] = {.name = "reciprocal_at_the_end", .splits = 5, .normalise_late = false};
  kernels[10] = {.name = "everything_at_once",
                 .tile = 16,
                 .splits = 6,
                 .order = SumOrder::truncated,
                 .fused_scale = true,
                 .natural = true,
                 .exp2_ulp = 2,
                 .log_sum_exp = true,
                 .normalise_late = false};
  return kernels;
}

std::string explain(const AttentionCheck& check) {
  const BoundedElement worst = check.headroom.worst.value_or(BoundedElement{});
  return "worst element " + std::to_string(worst.flat_index) + ": got " +
         std::to_string(worst.got) + ", exact " + std::to_string(worst.exact) + ", bound " +
         std::to_string(worst.bound);
}

class LegalKernels : public testing::TestWithParam<test::CallKind> {};

TEST_P(LegalKernels, StayWithinTheBound) {
  for (const float sharpness : {0.1F, 1.0F, 6.0F}) {
    const AttentionCase attention = random_case(GetParam(), 3, kPositions, 4, 2, sharpness);
    for (const SoftmaxKernel& kernel : legal_kernels()) {
      const AttentionCheck check = attention.check(run(kernel, attention.call, attention.outputs));
      EXPECT_EQ(check.headroom.outside, 0) << kernel.name << ": " << explain(check);
      EXPECT_EQ(check.headroom.elements, attention.outputs.attn_output.size());
      EXPECT_EQ(check.headroom.unbounded, 0);
    }
    EXPECT_EQ(attention.check(attention.outputs.attn_output).headroom.outside, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(, LegalKernels, testing::ValuesIn(test::kCallKinds),
                         [](const auto& row) { return std::string(row.param.name); });

// Specificity over many calls: each of a kernel's freedoms alone, then in pairs.
TEST(LegalKernelsOverSeeds, AreNeverFaults) {
  const std::vector<SoftmaxKernel> kernels = legal_kernels();
  for (std::uint64_t seed = 1; seed <= ZERODIFF_BOUND_SEEDS; ++seed) {
    const auto length = static_cast<std::int64_t>(seed * 37 % 400);
    const test::CallKind& kind = test::kCallKinds[seed % test::kCallKinds.size()];
    const AttentionCase attention =
        random_case(kind, seed, {length, 3}, 2, 1, seed % 5 == 0 ? 10.0F : 1.0F, 2);
    for (const std::size_t k : {seed % kernels.size(), (seed + 1 + seed / 11) % kernels.size()}) {
      const AttentionCheck check =
          attention.check(run(kernels[k], attention.call, attention.outputs));
      EXPECT_EQ(check.headroom.outside, 0)
          << "seed " << seed << ", " << kernels[k].name << ": " << explain(check);
    }
  }
}

TEST(ClaimedWeights, OfFp8AreWithinTheBoundOfTheirClaimOnly) {
  const AttentionCase attention = random_case(test::kBfloat16, 5, kPositions);
  const Tensor got =
      run({.name = "fp8 P", .p_dtype = PDtype::fp8}, attention.call, attention.outputs);
  AccumulateRules fp8;
  fp8.p_dtype = PDtype::fp8;
  EXPECT_EQ(attention.check(got, fp8).headroom.outside, 0);
  EXPECT_GT(attention.check(got).headroom.outside, 0);
}

TEST(ClaimedWeights, OfBinary32HaveANarrowerBound) {
  const AttentionCase attention = random_case(test::kBfloat16, 5, kPositions);
  AccumulateRules fp32;
  fp32.p_dtype = PDtype::fp32;
  const Tensor exact =
      run({.name = "fp32 P", .p_dtype = PDtype::fp32}, attention.call, attention.outputs);
  const Tensor rounded = run({.name = "bf16 P"}, attention.call, attention.outputs);
  EXPECT_EQ(attention.check(exact, fp32).headroom.outside, 0);
  EXPECT_EQ(attention.check(exact).headroom.outside, 0);
  EXPECT_GT(attention.check(rounded, fp32).headroom.outside, 0);
}

// Two tokens of equal scores and values 1 and 3: exactly 2, and a bound that can be written down.
TEST(RowBoundByHand, OfTwoEqualTokens) {
  AttentionCase attention = random_case(test::kBfloat16, 1, {1}, 1, 1);
  std::fill(attention.outputs.q.as<std::uint16_t>().begin(),
            attention.outputs.q.as<std::uint16_t>().end(), std::uint16_t{0});
  for (std::int64_t i = 0; i < 2; ++i) {
    const std::int64_t slot = test::slot_of(attention.call, 0, i);
    for (std::int64_t d = 0; d < 128; ++d) {
      test::put(attention.outputs.v_cache, test::v_element(attention.call, slot, 0, d),
                static_cast<float>(2 * i + 1));
    }
  }
  run_stages(attention);
  AttentionBound bound(attention.call, attention.outputs.k_cache, attention.outputs.v_cache, {});
  const RowBound& row = bound.evaluate(attention.outputs.sparse_block_table.as<std::int32_t>(), 2,
                                       attention.outputs.q.as<std::uint16_t>().first(128));
  EXPECT_EQ(row.exact(7, 0), 2.0);
  EXPECT_EQ(row.sums(0), 2.0);
  // P: 2^-8 (1 + 3) / 2; the output: 2^-7. What is left is a few hundred units of 2^-22.
  EXPECT_GE(row.bound(7, 0), 0x1p-7 + 0x1p-7);
  EXPECT_LE(row.bound(7, 0), 0x1p-7 + 0x1p-7 + 200 * 0x1p-22);
}

TEST(HalfStep, IsHalfTheDistanceOfNeighbours) {
  EXPECT_EQ(half_step_at(ElementType::bfloat16, 1.0), 0x1p-8);
  EXPECT_EQ(half_step_at(ElementType::bfloat16, 1.99), 0x1p-8);
  EXPECT_EQ(half_step_at(ElementType::bfloat16, 0), 0x1p-134);
  EXPECT_EQ(half_step_at(ElementType::float16, 3.0), 0x1p-10);
  EXPECT_EQ(half_step_at(ElementType::float16, 0x1p-20), 0x1p-25);
}

class CapturedAttention : public testing::TestWithParam<std::string> {};

// A real kernel's: within the bound, and using a fair part of it.
TEST_P(CapturedAttention, IsWithinABoundThatIsNotSlack) {
  CaptureReader reader(
      std::string(ZERODIFF_SOURCE_DIR) + "/fixtures/captured/" + GetParam() + ".h5",
      {.probe_in_child = false});
  const Outputs path = reader.read_path("atom_fused");
  const AttentionInputs inputs{&path.q, &path.k_cache, &path.v_cache, &path.sparse_block_table,
                               &path.sparse_context_lens};
  const AttentionCheck check = check_attention(reader.call(), inputs, path.attn_output, {});
  EXPECT_EQ(check.headroom.outside, 0) << explain(check);
  EXPECT_GT(check.headroom.median, 0.01);
  EXPECT_GT(check.resolution.share(), 0.2);
}

INSTANTIATE_TEST_SUITE_P(, CapturedAttention,
                         testing::Values("m3_small_decode_fp8", "m3_small_prefill_bf16"),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace zerodiff::compare
