// What the search explains, and what it must not.
#include "compare/legal_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <string>

#include "compare/output_comparison.h"
#include "fixtures/capture.h"
#include "fixtures/generator.h"
#include "reference/layer.h"
#include "tests/compare/insertion_variants.h"
#include "tests/compare/small_call.h"

namespace zerodiff::compare {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Comparison> judged(const LayerCall& call, const Outputs& got,
                               const AllowedChoices& allowed, int threads = 1) {
  const Outputs contract = reference::run_insertion(call, {}, 1);
  std::vector<Comparison> comparisons =
      compare_outputs(call, contract, "reference", got, "path", {{.threads = threads}, true});
  judge_insertion(call, contract, got, allowed, comparisons, threads);
  return comparisons;
}

const Comparison& output(const std::vector<Comparison>& comparisons, const std::string& name) {
  const auto found = std::ranges::find(comparisons, name, &Comparison::output);
  if (found == comparisons.end()) throw std::runtime_error("no comparison of " + name);
  return *found;
}

// 40 float16 tokens of 2/1/1 heads and scales of 41/32, under which halves of a step are frequent.
// V leaves the range of the format.
LayerCall telling_call(std::uint64_t seed) {
  GeneratorOptions options;
  options.seed = seed;
  options.model_dtype = ElementType::float16;
  options.max_context = 100;
  options.k_scale = 41.0F / 32;
  options.v_scale = 1.0F / 512;
  LayerConfig& config = options.config;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.num_index_heads = 1;
  config.rotary_dim = 128;
  config.rms_norm_eps = 1e-6F;
  config.sm_scale = 1;
  config.num_tokens = 40;
  config.phase = Phase::prefill;
  config.kv_cache_dtype = ElementType::float8_e4m3fn;
  config.index_cache_dtype = ElementType::float8_e4m3fn;
  return generate_call(options);
}

class NotAllowed : public testing::TestWithParam<VariantRow> {};

// The same outputs are legal where the choice is allowed: legal_matrix_test.cc.
TEST_P(NotAllowed, IsAFault) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const LayerCall call = telling_call(seed);
    const Outputs got = variant(call, {GetParam()});
    int faults = 0;
    for (const Comparison& comparison : judged(call, got, AllowedChoices(call.config))) {
      EXPECT_NE(comparison.verdict, Verdict::legal) << comparison.output << ", seed " << seed;
      if (comparison.verdict != Verdict::fault) continue;
      ++faults;
      ASSERT_TRUE(comparison.legal);
      EXPECT_GT(comparison.legal->heads_unexplained, 0);
      EXPECT_TRUE(comparison.legal->first_unexplained);
    }
    EXPECT_GT(faults, 0) << "seed " << seed;
  }
}

std::vector<VariantRow> declared_rows() {
  std::vector<VariantRow> rows;
  for (const VariantRow& row : variant_rows()) {
    if (row.declared) rows.push_back(row);
  }
  return rows;
}

INSTANTIATE_TEST_SUITE_P(DeclaredChoices, NotAllowed, testing::ValuesIn(declared_rows()),
                         [](const auto& row) { return row.param.name; });

// Choices that need no declaration, taken away: r moved by 3 ulp without a free order of the sum.
TEST(LegalSearch, MovesROnlyAsFarAsAllowed) {
  const LayerCall call = telling_call(1);
  reference::Choices choices;
  const auto verdict_of_q = [&](int ulps, const char* rsqrt, const char* order) {
    AllowedChoices allowed(call.config);
    allowed.replace("rope_contraction", {"fma_cos"}, "test");
    allowed.replace("rsqrt", {rsqrt}, "test");
    allowed.replace("sumsq_order", {order}, "test");
    choices.rsqrt_ulp = ulps;
    return output(judged(call, reference::run_insertion(call, choices, 1), allowed), "q").verdict;
  };
  EXPECT_EQ(verdict_of_q(2, "2", "lane_sum128"), Verdict::legal);
  EXPECT_EQ(verdict_of_q(-2, "2", "lane_sum128"), Verdict::legal);
  EXPECT_EQ(verdict_of_q(8, "2", "lane_sum128"), Verdict::fault);
  EXPECT_EQ(verdict_of_q(1, "0", "lane_sum128"), Verdict::fault);
  EXPECT_EQ(verdict_of_q(8, "2", "any"), Verdict::legal);
  EXPECT_EQ(verdict_of_q(-8, "0", "any"), Verdict::legal);
  EXPECT_EQ(verdict_of_q(100, "2", "any"), Verdict::fault);
  EXPECT_EQ(verdict_of_q(-100, "2", "any"), Verdict::fault);
}

// One r for the 128 values of a head: halves of two heads that two values of r explain are a fault.
TEST(LegalSearch, OneFactorExplainsTheWholeHead) {
  const LayerCall call = telling_call(2);
  const Outputs low = reference::run_insertion(call, {.rsqrt_ulp = -30}, 1);
  Outputs mixed = reference::run_insertion(call, {.rsqrt_ulp = 30}, 1);
  const AllowedChoices allowed(call.config);
  ASSERT_EQ(output(judged(call, low, allowed), "q").verdict, Verdict::legal);
  ASSERT_EQ(output(judged(call, mixed, allowed), "q").verdict, Verdict::legal);
  const auto from = low.q.as<std::uint16_t>();
  const auto to = mixed.q.as<std::uint16_t>();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (i % kHeadDim < 32) to[i] = from[i];
  }
  const Comparison q = output(judged(call, mixed, allowed), "q");
  EXPECT_EQ(q.verdict, Verdict::fault);
  EXPECT_GT(q.legal->heads_unexplained, 0);
  EXPECT_LT(q.legal->heads_unexplained, q.legal->heads);
}

// A choice per build is one choice for the path: K from fp32 and index K from the model dtype are
// no build, though either is allowed.
TEST(LegalSearch, ChoicesPerBuildAreSolvedOnceForThePath) {
  const LayerCall call = telling_call(3);
  Outputs mixed = reference::run_insertion(call, {.quantize_from = QuantizeFrom::fp32}, 1);
  AllowedChoices allowed(call.config);
  allowed.allow("quantize_from", "fp32", "test");
  auto comparisons = judged(call, mixed, allowed);
  EXPECT_EQ(output(comparisons, "k_cache").verdict, Verdict::legal);
  EXPECT_EQ(output(comparisons, "index_cache").verdict, Verdict::legal);
  EXPECT_EQ(summary(*output(comparisons, "k_cache").legal), "quantize_from fp32");

  mixed.index_cache = reference::run_insertion(call, {}, 1).index_cache;
  comparisons = judged(call, mixed, allowed);
  EXPECT_EQ(output(comparisons, "index_cache").verdict, Verdict::identical);
  EXPECT_EQ(output(comparisons, "k_cache").verdict, Verdict::fault);
}

struct Damage {
  std::string name;
  std::string output;
  std::function<void(const LayerCall&, Outputs&)> apply;
};

std::vector<Damage> damages() {
  const auto first_stored = [](const LayerCall& call) {
    return static_cast<std::size_t>(call.slot_mapping.as<std::int64_t>()[0]);
  };
  return {
      {"a_sign_of_q", "q",
       [](const LayerCall&, Outputs& o) { o.q.as<std::uint16_t>()[777] ^= 0x8000; }},
      {"two_steps_in_q", "q",
       [](const LayerCall&, Outputs& o) { o.q.as<std::uint16_t>()[778] ^= 0x0004; }},
      {"two_heads_of_q_swapped", "q",
       [](const LayerCall&, Outputs& o) {
         const auto q = o.q.as<std::uint16_t>();
         std::swap_ranges(q.begin(), q.begin() + kHeadDim, q.begin() + kHeadDim);
       }},
      {"a_code_of_index_q", "index_q",
       [](const LayerCall&, Outputs& o) { o.index_q.as<std::uint8_t>()[5] ^= 0x10; }},
      {"a_stored_index_key", "index_cache",
       [=](const LayerCall& call, Outputs& o) {
         o.index_cache.as<std::uint8_t>()[first_stored(call) * kHeadDim + 9] ^= 0x08;
       }},
      {"an_untouched_index_key", "index_cache",
       [=](const LayerCall& call, Outputs& o) {
         const std::size_t other = first_stored(call) ^ 64U;  // past the stored tokens of the block
         o.index_cache.as<std::uint8_t>()[other * kHeadDim + 9] ^= 0x01;
       }},
      {"the_last_byte_of_v", "v_cache",
       [](const LayerCall&, Outputs& o) { o.v_cache.as<std::uint8_t>().back() ^= 0x01; }},
      {"the_last_byte_of_k", "k_cache",
       [](const LayerCall&, Outputs& o) { o.k_cache.as<std::uint8_t>().back() ^= 0x01; }},
  };
}

class Damaged : public testing::TestWithParam<Damage> {};

TEST_P(Damaged, OutputIsAFaultAndNoOtherIs) {
  const LayerCall call = telling_call(4);
  Outputs got = reference::run_insertion(call, {.rsqrt_ulp = 1}, 1);
  GetParam().apply(call, got);
  for (const Comparison& comparison : judged(call, got, AllowedChoices(call.config))) {
    EXPECT_EQ(comparison.verdict == Verdict::fault, comparison.output == GetParam().output)
        << comparison.output << " is " << name_of(comparison.verdict);
  }
}

INSTANTIATE_TEST_SUITE_P(OneDamage, Damaged, testing::ValuesIn(damages()),
                         [](const auto& row) { return row.param.name; });

TEST(LegalSearch, CountsTheFaultyHeadsOnly) {
  const LayerCall call = telling_call(5);
  Outputs got = reference::run_insertion(call, {.rsqrt_ulp = -1}, 1);
  const auto q = got.q.as<std::uint16_t>();
  q[3 * 2 * kHeadDim + 17] ^= 0x8000;        // token 3, head 0
  q[7 * 2 * kHeadDim + kHeadDim] ^= 0x4000;  // token 7, head 1
  const Comparison compared = output(judged(call, got, AllowedChoices(call.config)), "q");
  ASSERT_TRUE(compared.legal);
  const LegalReport& legal = *compared.legal;
  EXPECT_EQ(legal.heads, 80);
  EXPECT_EQ(legal.heads_unexplained, 2);
  EXPECT_EQ(legal.elements_explained + legal.elements_unexplained, compared.total.mismatches);
  ASSERT_TRUE(legal.first_unexplained);
  EXPECT_EQ(coordinate(*legal.first_unexplained, "token"), 3);
  EXPECT_EQ(coordinate(*legal.first_unexplained, "head"), 0);
  std::int64_t explained = legal.heads_by_sum_order;
  for (const std::int64_t heads : legal.heads_by_ulp) explained += heads;
  EXPECT_EQ(explained, 78);
  EXPECT_GT(legal.heads_by_ulp[LegalReport::kMostUlps - 1], 0);
  EXPECT_EQ(legal.heads_by_sum_order, 0);
}

TEST(LegalSearch, PaddingRowsAreNotJudged) {
  GeneratorOptions options = small_options(3);
  const LayerCall call = generate_call(options);
  Outputs got = reference::run_insertion(call, {}, 1);
  got.q.as<std::uint16_t>().back() ^= 0x8000;
  got.q.as<std::uint16_t>().front() ^= 0x8000;
  const Comparison q = output(judged(call, got, AllowedChoices(call.config)), "q");
  EXPECT_EQ(q.verdict, Verdict::fault);
  EXPECT_EQ(q.legal->heads, 9 * 4);
  EXPECT_EQ(q.legal->elements_unexplained, 1);
}

TEST(LegalSearch, LeavesIdenticalAndLaterOutputsAlone) {
  const LayerCall call = generate_call(small_fp8_options(ElementType::float8_e4m3fn));
  const Outputs contract = reference::run_layer(call, {}, {.threads = 1});
  Outputs got = contract;
  got.attn_output.as<std::uint16_t>()[0] ^= 1;
  auto comparisons = compare_outputs(call, contract, "reference", got, "path");
  judge_insertion(call, contract, got, AllowedChoices(call.config), comparisons, 1);
  for (const Comparison& comparison : comparisons) {
    EXPECT_FALSE(comparison.legal) << comparison.output;
    EXPECT_EQ(comparison.verdict,
              comparison.output == "attn_output" ? Verdict::different : Verdict::identical);
  }
}

TEST(LegalSearch, AnIndexCacheThatMustBeUnchangedHasNoChoice) {
  GeneratorOptions options = small_options(4);
  options.config.skip_index_branch = true;
  LayerCall call = generate_call(options);
  if (!call.index_cache.present()) {
    call.index_cache = Tensor::zeros(call.model_dtype(), {call.num_blocks(), kBlockSize, kHeadDim});
  }
  Outputs got = reference::run_insertion(call, {}, 1);
  got.index_cache = call.index_cache;
  got.index_cache.as<std::uint16_t>()[3] ^= 1;
  const Comparison cache = output(judged(call, got, AllowedChoices(call.config)), "index_cache");
  EXPECT_EQ(cache.verdict, Verdict::fault);
  EXPECT_FALSE(cache.legal);
}

std::string text_of(const std::vector<Comparison>& comparisons) {
  std::string text;
  for (const Comparison& comparison : comparisons) {
    if (!comparison.legal) continue;
    const LegalReport& legal = *comparison.legal;
    text += comparison.output + ": " + summary(legal) + ", move " +
            std::to_string(legal.largest_move) + ", left " +
            std::to_string(legal.heads_unexplained) + "; ";
    if (legal.first_unexplained) {
      text += "first " + std::to_string(coordinate(*legal.first_unexplained, "token")) + "; ";
    }
  }
  return text;
}

TEST(LegalSearch, DoesNotDependOnThreads) {
  GeneratorOptions options = small_fp8_options(ElementType::float8_e4m3fn, 9);
  options.config.num_tokens = 300;
  options.capacity = 300;
  const LayerCall call = generate_call(options);
  AllowedChoices allowed(call.config);
  allowed.allow("quantize_from", "fp32", "test");
  for (const VariantRow& row : variant_rows()) {
    Outputs got = variant(call, {row});
    got.q.as<std::uint16_t>()[140'000] ^= 0x8000;
    const std::string one = text_of(judged(call, got, allowed, 1));
    EXPECT_NE(one, "") << row.name;
    EXPECT_EQ(text_of(judged(call, got, allowed, 3)), one) << row.name;
  }
}

// What the captured kernels do, as their README has it.
TEST(CapturedPaths, AreExplained) {
  const CaptureReader reader("fixtures/captured/m3_small_decode_fp8.h5", {.probe_in_child = false});
  const LayerCall& call = reader.call();
  CaptureReader paths("fixtures/captured/m3_small_decode_fp8.h5", {.probe_in_child = false});
  const Outputs atom = paths.read_path("atom_fused");
  const auto strict = judged(call, atom, AllowedChoices(call.config));
  EXPECT_EQ(output(strict, "q").verdict, Verdict::identical);
  EXPECT_EQ(output(strict, "k_cache").verdict, Verdict::fault);
  EXPECT_EQ(output(strict, "k_cache").legal->heads_unexplained, 5);
  EXPECT_EQ(output(strict, "index_cache").verdict, Verdict::fault);
  AllowedChoices allowed(call.config);
  allowed.allow("quantize_from", "fp32", "test");
  const auto wide = judged(call, atom, allowed);
  for (const char* name : {"k_cache", "index_cache"}) {
    const Comparison& cache = output(wide, name);
    EXPECT_EQ(cache.verdict, Verdict::legal) << name;
    EXPECT_EQ(summary(*cache.legal), "quantize_from fp32") << name;
    EXPECT_EQ(cache.legal->heads_by_ulp[LegalReport::kMostUlps], 5) << name;
    const auto source =
        std::ranges::find(cache.legal->choices, "quantize_from", &ChoiceFinding::id);
    ASSERT_NE(source, cache.legal->choices.end());
    EXPECT_THAT(source->as_good, IsEmpty());
  }
}

TEST(CapturedPaths, QOfThePrefillFileIsOneUlpOfRsqrtOff) {
  CaptureReader reader("fixtures/captured/m3_small_prefill_bf16.h5", {.probe_in_child = false});
  for (const char* path : {"atom_fused", "nvcc_fused", "torch_unfused"}) {
    const Comparison q = output(
        judged(reader.call(), reader.read_path(path), AllowedChoices(reader.call().config)), "q");
    EXPECT_EQ(q.verdict, Verdict::legal) << path;
    EXPECT_THAT(q.legal->heads_by_ulp, ElementsAre(0, 0, 367, 1, 0)) << path;
    EXPECT_EQ(q.legal->elements_explained, 1) << path;
    EXPECT_EQ(summary(*q.legal), "rsqrt in 1 head") << path;
  }
}

}  // namespace

void PrintTo(const VariantRow& row, std::ostream* out) {
  *out << row.name;
}

}  // namespace zerodiff::compare
