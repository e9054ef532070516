// What the results must not depend on: the path, the number of splits, the scratch, the wave width,
// the number of OS threads, and whether stages run in one list or one by one.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "device/host/host_backend.h"
#include "device/paths/run_path.h"
#include "tests/device/attention_test_support.h"

namespace zerodiff::device {
namespace {

// A random call of any kind, unless its contexts are so long that scores take minutes.
bool affordable(const GeneratorOptions& options) {
  return options.min_context < 10'000;
}

class RandomCalls : public testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomCalls, AreTheSameOnBothPathsAndWaveWidths) {
  int calls = 0;
  for (std::uint64_t seed = GetParam(); calls < 6; ++seed) {
    const GeneratorOptions options = random_options(seed);
    if (!affordable(options)) continue;
    const AttentionCase of = attention_case(options);
    SCOPED_TRACE(describe(options));
    const AttentionOptions keep{.keep_index_score = true, .splits = ++calls};
    const Outputs unfused = run_stages(of, PathKind::unfused, keep, {.wave_width = 32});
    const Outputs fused = run_stages(of, PathKind::fused, keep, {.wave_width = 64, .threads = 3});
    ASSERT_EQ(attention_difference(unfused, fused), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomCalls,
                         testing::Values(5000, 5010, 5020, 5030, 5040, 5050, 5060, 5070));

// Rows that see from 1 to 18 blocks, of which topk 16 are used.
GeneratorOptions many_blocks() {
  GeneratorOptions options = attention_options(10, 2, 21);
  options.config.topk = 16;
  options.config.num_tokens = 6;
  options.config.phase = Phase::decode;
  options.config.kv_cache_dtype = ElementType::float8_e4m3fn;
  options.num_requests = 6;
  options.max_context = 2300;
  return options;
}

class Splits : public testing::TestWithParam<int> {};

TEST_P(Splits, LeaveNoTrace) {
  const AttentionCase of = attention_case(many_blocks());
  const Outputs fused = run_stages(of, PathKind::fused);
  const Outputs split = run_stages(of, PathKind::unfused, {.splits = GetParam()});
  EXPECT_EQ(attention_difference(fused, split), "");
}

INSTANTIATE_TEST_SUITE_P(Counts, Splits, testing::Values(1, 2, 3, 7, 16, 40));

TEST(Scratch, OfAnySizeGivesTheSame) {
  const AttentionCase of = attention_case(many_blocks());
  for (const PathKind kind : kPathKinds) {
    const Outputs roomy = run_stages(of, kind);
    // One byte: a launch for each row, one work-group for all of them.
    for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{200'000}}) {
      EXPECT_EQ(attention_difference(roomy, run_stages(of, kind, {.scratch_bytes = bytes})), "")
          << name_of(kind) << " " << bytes;
    }
  }
}

TEST(WorkGroups, OfAnyNumberGiveTheSame) {
  const AttentionCase of = attention_case(many_blocks());
  for (const PathKind kind : kPathKinds) {
    const Outputs usual = run_stages(of, kind, {.keep_index_score = true});
    const Outputs few = run_stages(of, kind, {.keep_index_score = true, .wanted_work_groups = 1});
    EXPECT_EQ(attention_difference(usual, few), "") << name_of(kind);
  }
}

TEST(Executors, OfAnyKindGiveTheSame) {
  const AttentionCase of = attention_case(many_blocks());
  for (const PathKind kind : kPathKinds) {
    const Outputs one = run_stages(of, kind);
    const auto expect_same = [&](const ExecutorOptions& executor) {
      EXPECT_EQ(attention_difference(one, run_stages(of, kind, {}, executor)), "")
          << name_of(kind) << " wave " << executor.wave_width << " threads " << executor.threads;
    };
    expect_same({.wave_width = 64, .threads = 1});
    expect_same({.wave_width = 32, .threads = 3});
    expect_same({.wave_width = 64, .threads = 3});
    expect_same({.threads = 1, .checked = false});
  }
}

// The whole layer in one list, against the stages on what each has left in a file.
TEST(Stages, ChainedOrOneByOneGiveTheSame) {
  const AttentionCase of = attention_case(many_blocks());
  for (const PathKind kind : kPathKinds) {
    HostBackend backend({.threads = 1});
    PathOptions whole;
    whole.attention = AttentionOptions{.keep_index_score = true};
    const PathRun chained = run_path(of.call, kind, backend, whole);
    ASSERT_TRUE(chained.report.ok());
    AttentionCase stored = of;
    for (const AttentionStage stage :
         {AttentionStage::index_score, AttentionStage::index_topk,
          AttentionStage::sparse_block_table, AttentionStage::sparse_attention}) {
      const Outputs outputs = run_stages(
          stored, kind, {.first_stage = stage, .last_stage = stage, .keep_index_score = true});
      for (const OutputField& field : kOutputFields) {
        const Tensor& made = outputs.*field.tensor;
        if (made.present()) stored.inserted.*field.tensor = made;
      }
    }
    EXPECT_EQ(attention_difference(chained.outputs, stored.inserted), "") << name_of(kind);
  }
}

TEST(Stages, KeepScoresOnlyWhenAsked) {
  const AttentionCase of = attention_case(many_blocks());
  for (const PathKind kind : kPathKinds) {
    EXPECT_FALSE(run_stages(of, kind).index_score.present());
    EXPECT_TRUE(run_stages(of, kind, {.keep_index_score = true}).index_score.present());
  }
}

TEST(Stages, WithoutMetadataDoNothing) {
  GeneratorOptions options = many_blocks();
  options.with_attention_metadata = false;
  const AttentionCase of = attention_case(options);
  for (const PathKind kind : kPathKinds) {
    EXPECT_FALSE(run_stages(of, kind).attn_output.present());
  }
}

TEST(Stages, OfACallWithoutRowsGiveEmptyResults) {
  GeneratorOptions options = many_blocks();
  options.config.phase = Phase::prefill;
  options.config.num_tokens = 0;
  options.capacity = 0;
  options.max_context = 0;
  const AttentionCase of = attention_case(options);
  for (const PathKind kind : kPathKinds) {
    const Outputs outputs = run_stages(of, kind);
    ASSERT_TRUE(outputs.attn_output.present());
    EXPECT_EQ(outputs.attn_output.size(), 0);
  }
}

}  // namespace
}  // namespace zerodiff::device
