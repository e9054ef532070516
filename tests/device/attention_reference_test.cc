// The zero-difference proof of the whole layer: reference = unfused = fused in every output, scores
// included, on seeded random calls over the whole contract, byte for byte, on emulated waves of 32
// and 64 lanes (or a GPU: test_backends.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "device/paths/run_path.h"
#include "fixtures/generator.h"
#include "reference/layer.h"
#include "tests/device/test_backends.h"
#include "tests/oracle/outputs_difference.h"
#include "tests/reference/attention_calls.h"

namespace zerodiff::device {
namespace {

// Set by the build: sanitized builds run a tenth of the calls.
constexpr int kCallsPerShard = ZERODIFF_LAYER_CALLS_PER_SHARD;
constexpr int kShards = 8;
// Of a full run, whatever this build runs: what they cover is asserted for all of them.
constexpr int kAllCalls = 1040;

std::uint64_t seed_of(int call) {
  return 70'000 + static_cast<std::uint64_t>(call);
}

// What the host executor's time goes by: heads times blocks of all rows, in attention and scores.
std::int64_t work_of(const GeneratorOptions& options) {
  const LayerConfig& config = options.config;
  const std::int64_t blocks = options.max_context / kBlockSize + 1;
  return config.num_tokens *
         (config.num_heads * std::min(config.topk, blocks) + config.num_kv_heads * blocks);
}

// Fewer rows, then fewer query heads of a kv head, then a shorter context, and kv heads last.
void halve_something(GeneratorOptions& options) {
  LayerConfig& config = options.config;
  const std::int64_t group = config.num_heads / config.num_kv_heads;
  const std::int64_t padding = std::max<std::int64_t>(0, options.capacity - config.num_tokens);
  if (config.phase == Phase::decode && options.num_requests > 1) {
    options.num_requests /= 2;
    config.num_tokens = options.num_requests * config.decode_query_len;
  } else if (config.phase == Phase::prefill && config.num_tokens > 3) {
    config.num_tokens /= 2;
  } else if (group > 1) {
    config.num_heads = (group + 1) / 2 * config.num_kv_heads;
    if (group == 2) config.num_heads = config.num_kv_heads;
  } else if (options.max_context > kBlockSize) {
    options.max_context /= 2;
    options.min_context = std::min(options.min_context, options.max_context);
  } else {
    config.num_kv_heads = config.num_index_heads =
        std::max<std::int64_t>(1, config.num_kv_heads / 2);
    config.num_heads = group * config.num_kv_heads;
  }
  if (options.capacity > 0)
    options.capacity = std::max<std::int64_t>(1, config.num_tokens + padding);
}

GeneratorOptions whole_layer_options(std::uint64_t seed) {
  constexpr std::int64_t kMostWork = 48;
  GeneratorOptions options = test::random_attention_options(seed);
  while (work_of(options) > kMostWork) halve_something(options);
  options.sparse_rope_table = options.max_context > 300 || options.sparse_rope_table;
  // Half of the usual topk is one that leaves something out.
  const std::int64_t blocks = options.max_context / kBlockSize + 1;
  const auto draw = static_cast<std::int64_t>(seed);
  if (options.config.topk == 16 && blocks > 1 && draw % 2 == 1) {
    options.config.topk = 1 + draw % (blocks - 1);
  }
  return options;
}

void expect_zero_difference(const LayerCall& call, const Outputs& reference, Backend& backend,
                            const PathOptions& options, const std::string& where) {
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    const PathRun run = run_path(call, kind, backend, options);
    ASSERT_TRUE(run.report.ok()) << where << ": " << name_of(kind) << ": "
                                 << to_string(run.report.faults.front());
    ASSERT_EQ(oracle::first_difference(call, reference, run.outputs), "")
        << where << ": " << name_of(kind) << ", wave " << backend.wave_width();
  }
}

class WholeLayerShard : public testing::TestWithParam<int> {};

TEST_P(WholeLayerShard, EqualsTheReferenceByteForByte) {
  std::cout << kCallsPerShard << " calls in this shard, seeds from " << seed_of(GetParam())
            << " in steps of " << kShards << "\n";
  const auto backends = test_backends();
  for (int i = 0; i < kCallsPerShard; ++i) {
    const GeneratorOptions options = whole_layer_options(seed_of(GetParam() + kShards * i));
    const LayerCall call = generate_call(options);
    const Outputs reference =
        reference::run_layer(call, {}, {.threads = 1, .keep_index_score = true});
    ASSERT_TRUE(reference.attn_output.present()) << describe(options);
    // One split of a row or one a block; scratch for all rows or for few.
    PathOptions paths;
    paths.attention = AttentionOptions{.keep_index_score = true, .splits = i % 3};
    if (i % 2 == 0) paths.attention->scratch_bytes = 1 << 14;
    for (const auto& backend : backends) {
      expect_zero_difference(call, reference, *backend, paths, describe(options));
    }
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Attention, WholeLayerShard, testing::Range(0, kShards),
                         [](const auto& shard) { return std::to_string(shard.param); });

// What one of the calls has, as far as the options tell.
struct Coverage {
  using Pool = std::tuple<ElementType, std::optional<ElementType>, KvStorage, ScaleGranularity>;
  std::set<Pool> pools;
  std::set<std::optional<ElementType>> index_types;
  std::set<std::int64_t> kv_heads;
  std::set<std::int64_t> topk;
  std::set<std::int64_t> init_blocks;
  std::set<std::int64_t> local_blocks;
  std::set<std::tuple<Phase, std::int64_t, BatchMode>> phases;
  std::set<std::tuple<bool, KvStorage>> reused_selections;

  void add(const GeneratorOptions& options) {
    const LayerConfig& config = options.config;
    pools.emplace(options.model_dtype, config.kv_cache_dtype, config.kv_storage,
                  config.scale_granularity);
    index_types.insert(config.index_cache_dtype);
    kv_heads.insert(config.num_kv_heads);
    topk.insert(config.topk);
    init_blocks.insert(config.init_blocks);
    local_blocks.insert(config.local_blocks);
    phases.emplace(config.phase, config.phase == Phase::decode ? config.decode_query_len : 1,
                   config.batch_mode);
    reused_selections.emplace(config.skip_index_branch, config.kv_storage);
  }
};

TEST(WholeLayerOptions, CoverTheCrossProduct) {
  ASSERT_GE(kAllCalls, 1000);
  Coverage covered;
  for (int i = 0; i < kAllCalls; ++i) covered.add(whole_layer_options(seed_of(i)));
  EXPECT_EQ(covered.pools.size(), 2U * 5 * 2 * 2);
  EXPECT_EQ(covered.index_types.size(), 5U);
  EXPECT_EQ(covered.kv_heads.size(), 8U);
  EXPECT_EQ(covered.topk.size(), 64U);
  EXPECT_EQ(covered.init_blocks.size(), 4U);   // 0, 1, 2 and 6
  EXPECT_EQ(covered.local_blocks.size(), 4U);  // 0, 1, 2 and 4
  // Prefill, decode, and 2 to 5 rows of speculative decode; eager and graph-safe.
  EXPECT_EQ(covered.phases.size(), 6U * 2);
  EXPECT_EQ(covered.reused_selections.size(), 2U * 2);
}

// Rows by what their positions, or the lack of one, lead to.
struct Rows {
  std::int64_t padding = 0;
  std::int64_t empty = 0;
  std::int64_t partial_selections = 0;  // a row sees more blocks than topk
  std::int64_t several_blocks = 0;
  std::int64_t requests_of_length_0 = 0;

  void add(const LayerCall& call) {
    padding += call.capacity() - call.config.num_tokens;
    for (std::int64_t t = 0; t < call.config.num_tokens; ++t) {
      const std::int64_t position = call.positions.as<std::int64_t>()[static_cast<std::size_t>(t)];
      empty += position < 0 ? 1 : 0;
      partial_selections += position / kBlockSize + 1 > call.config.topk ? 1 : 0;
      several_blocks += position >= kBlockSize ? 1 : 0;
    }
    requests_of_length_0 += std::ranges::count(call.seq_lens.as<std::int32_t>(), 0);
  }
};

TEST(WholeLayerOptions, HaveEveryKindOfRow) {
  Rows rows;
  for (int i = 0; i < kAllCalls; i += 3) rows.add(generate_call(whole_layer_options(seed_of(i))));
  EXPECT_GT(rows.padding, 100);
  EXPECT_GT(rows.empty, 20);
  EXPECT_GT(rows.partial_selections, 20);
  EXPECT_GT(rows.several_blocks, 100);
  EXPECT_GT(rows.requests_of_length_0, 5);
}

}  // namespace
}  // namespace zerodiff::device
