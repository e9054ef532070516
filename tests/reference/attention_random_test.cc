// The stages after insertion on seeded random calls, against the oracle: five outputs, byte for
// byte (a NaN for any NaN in index_score and attn_output).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <tuple>

#include "reference/layer.h"
#include "tests/oracle/attention_difference.h"
#include "tests/oracle/attention_oracle.h"
#include "tests/reference/attention_calls.h"

namespace zerodiff::reference {
namespace {

constexpr LayerOptions kKeepAll{.threads = 1, .keep_index_score = true};
constexpr int kShards = 20;
constexpr int kCalls = kShards * ZERODIFF_ATTENTION_CALLS_PER_SHARD;

std::uint64_t seed_of(int call) {
  return 10'000 + static_cast<std::uint64_t>(call);
}

class RandomAttention : public testing::TestWithParam<int> {};

TEST_P(RandomAttention, EqualsTheOracle) {
  for (int i = GetParam(); i < kCalls; i += kShards) {
    const GeneratorOptions options = test::random_attention_options(seed_of(i));
    const LayerCall call = generate_call(options);
    const Outputs insertion = run_insertion(call, {}, 1);
    Outputs got = insertion;
    run_after_insertion(call, got, kKeepAll);
    ASSERT_EQ(oracle::attention_difference(oracle::run_attention(call, insertion), got), "")
        << describe(options);
    ASSERT_TRUE(got.attn_output.present()) << describe(options);
  }
}

INSTANTIATE_TEST_SUITE_P(Shard, RandomAttention, testing::Range(0, kShards));

// What 1,000 calls would miss if a choice of the options fell out.
TEST(RandomAttentionOptions, CoverTheCrossProduct) {
  std::set<std::tuple<ElementType, std::optional<ElementType>, KvStorage, ScaleGranularity>> pools;
  std::set<std::optional<ElementType>> index_types;
  std::set<std::int64_t> kv_heads;
  std::set<std::int64_t> topk;
  std::set<std::pair<Phase, std::int64_t>> phases;
  for (int i = 0; i < 1000; ++i) {
    const GeneratorOptions options = test::random_attention_options(seed_of(i));
    const LayerConfig& config = options.config;
    pools.emplace(options.model_dtype, config.kv_cache_dtype, config.kv_storage,
                  config.scale_granularity);
    index_types.insert(config.index_cache_dtype);
    kv_heads.insert(config.num_kv_heads);
    topk.insert(config.topk);
    phases.emplace(config.phase, config.phase == Phase::decode ? config.decode_query_len : 1);
  }
  EXPECT_EQ(pools.size(), 2U * 5 * 2 * 2);
  EXPECT_EQ(index_types.size(), 5U);
  EXPECT_EQ(kv_heads.size(), 8U);
  EXPECT_EQ(topk.size(), 64U);
  EXPECT_EQ(phases.size(), 6U);  // prefill, decode, and 2 to 5 rows of speculative decode
}

// Most outputs must be numbers, or equality would be about zeros and NaN; some must be NaN; and
// selections must have had something to leave out.
TEST(RandomAttentionOptions, GiveResultsThatCanDiffer) {
  std::int64_t outputs = 0;
  std::int64_t numbers = 0;  // finite and not zero
  std::int64_t nans = 0;
  std::int64_t rows = 0;
  std::int64_t rows_past_topk = 0;
  for (int i = 0; i < 50; ++i) {
    const LayerCall call = generate_call(test::random_attention_options(seed_of(i)));
    const Tensor attention = run_layer(call, {}, kKeepAll).attn_output;
    outputs += attention.size();
    for (std::int64_t element = 0; element < attention.size(); ++element) {
      const float value = test::value_at(attention, element);
      numbers += std::isfinite(value) && value != 0 ? 1 : 0;
      nans += std::isnan(value) ? 1 : 0;
    }
    for (std::int64_t row = 0; row < call.config.num_tokens; ++row, ++rows) {
      const std::int64_t p = call.positions.as<std::int64_t>()[static_cast<std::size_t>(row)];
      rows_past_topk += p >= 0 && p / kBlockSize + 1 > call.config.topk ? 1 : 0;
    }
  }
  EXPECT_GT(numbers, outputs / 2) << "of " << outputs;
  EXPECT_GT(nans, 0);
  EXPECT_GT(rows_past_topk, rows / 20) << "of " << rows;
}

}  // namespace
}  // namespace zerodiff::reference
