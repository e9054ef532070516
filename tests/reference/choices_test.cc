// Each legal choice of reference/choices.h against the oracle under the same choice; and that the
// choice shows, only where it may.
#include "reference/choices.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "fixtures/generator.h"
#include "reference/layer.h"
#include "tests/oracle/layer.h"
#include "tests/oracle/outputs_difference.h"

namespace zerodiff::reference {
namespace {

constexpr int kCalls = ZERODIFF_CALLS_PER_SHARD / 5;

// Outputs that a choice may change.
constexpr unsigned kQ = 1;
constexpr unsigned kIndexQ = 2;
constexpr unsigned kKv = 4;
constexpr unsigned kIndexK = 8;
constexpr unsigned kAll = 15;

struct ChoiceRow {
  const char* name;
  void (*choose)(Choices&);
  unsigned changes;

  Choices choices() const {
    Choices chosen;
    choose(chosen);
    return chosen;
  }
};

void choose_everything(Choices& c) {
  c.rope_contraction = RopeContraction::separate;
  c.rsqrt_ulp = -1;
  c.sumsq_order = SumsqOrder::pairwise;
  c.norm_materialised = true;
  c.scale_op = ScaleOp::divide;
  c.quantize_from = QuantizeFrom::fp32;
  c.overflow = Overflow::nan;
  c.index_q_from = IndexQFrom::model_dtype;
}

const ChoiceRow kChoices[] = {
    {"rope_separate", [](Choices& c) { c.rope_contraction = RopeContraction::separate; }, kAll},
    {"rope_fma_sin", [](Choices& c) { c.rope_contraction = RopeContraction::fma_sin; }, kAll},
    {"rsqrt_plus_1", [](Choices& c) { c.rsqrt_ulp = 1; }, kAll},
    {"rsqrt_minus_2", [](Choices& c) { c.rsqrt_ulp = -2; }, kAll},
    {"sumsq_sequential", [](Choices& c) { c.sumsq_order = SumsqOrder::sequential; }, kAll},
    {"sumsq_pairwise", [](Choices& c) { c.sumsq_order = SumsqOrder::pairwise; }, kAll},
    {"norm_materialised", [](Choices& c) { c.norm_materialised = true; }, kAll},
    {"scale_multiply", [](Choices& c) { c.scale_op = ScaleOp::multiply_reciprocal; }, kKv},
    {"scale_divide", [](Choices& c) { c.scale_op = ScaleOp::divide; }, kKv},
    {"quantize_model_dtype", [](Choices& c) { c.quantize_from = QuantizeFrom::model_dtype; },
     kKv | kIndexK},
    {"quantize_fp32", [](Choices& c) { c.quantize_from = QuantizeFrom::fp32; }, kKv | kIndexK},
    {"overflow_saturate", [](Choices& c) { c.overflow = Overflow::saturate; }, kKv},
    {"overflow_nan", [](Choices& c) { c.overflow = Overflow::nan; }, kKv},
    {"index_q_fp32", [](Choices& c) { c.index_q_from = IndexQFrom::fp32; }, kIndexQ},
    {"index_q_model_dtype", [](Choices& c) { c.index_q_from = IndexQFrom::model_dtype; }, kIndexQ},
    {"everything", choose_everything, kAll},
};

unsigned group_of(std::string_view output) {
  if (output == "q") return kQ;
  if (output == "index_q") return kIndexQ;
  return output == "index_cache" ? kIndexK : kKv;
}

unsigned changed_groups(const Outputs& a, const Outputs& b) {
  unsigned changed = 0;
  for (const OutputField& field : kOutputFields) {
    if (!identical(a.*field.tensor, b.*field.tensor)) changed |= group_of(field.name);
  }
  return changed;
}

// Small calls that show rare differences: many tokens, float16 (whose values often lie halfway
// between fp8 codes once divided by 41/32), and V beyond the range in every fourth call. Their
// contracts go through all combinations.
LayerCall telling_call(unsigned i) {
  GeneratorOptions options;
  options.seed = i;
  options.model_dtype = ElementType::float16;
  options.max_context = 100;
  options.spare_blocks = 0;
  options.k_scale = 41.0F / 32;
  options.v_scale = i % 4 == 3 ? 1.0F / 512 : 41.0F / 64;
  LayerConfig& config = options.config;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.num_index_heads = 1;
  config.rotary_dim = 128;
  config.rms_norm_eps = 1e-6F;
  config.sm_scale = 1;
  config.num_tokens = 40;
  config.phase = Phase::prefill;
  if (i % 3 != 1) config.kv_cache_dtype = ElementType::float8_e4m3fn;
  if (i % 3 == 0) config.index_cache_dtype = ElementType::float8_e4m3fn;
  config.scale_op = (i & 1U) != 0 ? ScaleOp::divide : ScaleOp::multiply_reciprocal;
  config.quantize_from = (i & 2U) != 0 ? QuantizeFrom::fp32 : QuantizeFrom::model_dtype;
  config.index_q_from = (i & 4U) != 0 ? IndexQFrom::model_dtype : IndexQFrom::fp32;
  config.overflow = (i & 8U) != 0 ? Overflow::nan : Overflow::saturate;
  return generate_call(options);
}
constexpr unsigned kTellingCalls = 96;

void PrintTo(const ChoiceRow& row, std::ostream* out) {
  *out << row.name;
}

class Choice : public testing::TestWithParam<ChoiceRow> {};

TEST_P(Choice, EqualsTheOracle) {
  const Choices choices = GetParam().choices();
  for (int i = 0; i < kCalls; ++i) {
    const GeneratorOptions options = random_options(10'000 + static_cast<std::uint64_t>(i));
    const LayerCall call = generate_call(options);
    const Outputs expected = oracle::run_insertion(call, choices);
    const Outputs got = run_insertion(call, choices, 1);
    ASSERT_EQ(oracle::first_difference(call, expected, got), "") << describe(options);
  }
}

TEST_P(Choice, ShowsWhereItMayAndNowhereElse) {
  const Choices choices = GetParam().choices();
  unsigned shown = 0;
  for (unsigned i = 0; i < kTellingCalls; ++i) {
    const LayerCall call = telling_call(i);
    const unsigned changed =
        changed_groups(run_insertion(call, {}, 1), run_insertion(call, choices, 1));
    ASSERT_EQ(changed & ~GetParam().changes, 0U) << "telling call " << i;
    shown |= changed;
  }
  EXPECT_EQ(shown, GetParam().changes);
}

INSTANTIATE_TEST_SUITE_P(Insertion, Choice, testing::ValuesIn(kChoices),
                         [](const auto& row) { return std::string(row.param.name); });

// Overflow::inf exists in e5m2 only.
TEST(Insertion, OverflowToInfinityIsAChoiceOfE5m2) {
  bool shown = false;
  for (int i = 0; i < kCalls; ++i) {
    GeneratorOptions options = random_options(20'000 + static_cast<std::uint64_t>(i));
    options.config.kv_cache_dtype = ElementType::float8_e5m2;
    options.config.overflow = i % 2 == 0 ? Overflow::saturate : Overflow::nan;
    options.v_scale = 1e-6F;
    const LayerCall call = generate_call(options);
    Choices choices;
    choices.overflow = Overflow::inf;
    const Outputs got = run_insertion(call, choices, 1);
    const Outputs expected = oracle::run_insertion(call, choices);
    ASSERT_EQ(oracle::first_difference(call, expected, got), "") << describe(options);
    shown = shown || changed_groups(run_insertion(call, {}, 1), got) == kKv;
  }
  EXPECT_TRUE(shown);
}

// The choices that the call can declare itself mean the same as the call's declaration.
TEST(Insertion, AChoiceEqualsTheDeclarationOfTheSameValue) {
  for (int i = 0; i < kCalls; ++i) {
    LayerCall call = generate_call(random_options(30'000 + static_cast<std::uint64_t>(i)));
    const Choices choices{.scale_op = call.config.scale_op,
                          .quantize_from = call.config.quantize_from,
                          .overflow = call.config.overflow,
                          .index_q_from = call.config.index_q_from};
    const Outputs declared = run_insertion(call, {}, 1);
    call.config.scale_op = ScaleOp::multiply_reciprocal;
    call.config.quantize_from = QuantizeFrom::model_dtype;
    call.config.overflow = Overflow::saturate;
    call.config.index_q_from = IndexQFrom::fp32;
    ASSERT_EQ(changed_groups(declared, run_insertion(call, choices, 1)), 0U) << i;
  }
}

}  // namespace
}  // namespace zerodiff::reference
