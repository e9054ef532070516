// Index scores of operands so small that every order of the sum is exact, of operands where only
// one order is right, and of NaN.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "fixtures/generator_random.h"
#include "tests/device/attention_test_support.h"

namespace zerodiff::device {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct ScoreCase {
  std::string name;
  std::int64_t kv_heads;
  std::int64_t tokens;
  std::int64_t requests;
  ElementType model_dtype;
  std::optional<ElementType> index_dtype;
  Phase phase;
  std::int64_t query_len = 1;
};

const ScoreCase kScoreCases[] = {
    {"bf16_decode", 1, 3, 3, ElementType::bfloat16, std::nullopt, Phase::decode},
    {"fp16_speculative", 3, 8, 2, ElementType::float16, std::nullopt, Phase::decode, 4},
    {"e4m3fn_prefill", 1, 37, 2, ElementType::bfloat16, ElementType::float8_e4m3fn, Phase::prefill},
    {"e4m3fnuz_decode", 8, 2, 2, ElementType::bfloat16, ElementType::float8_e4m3fnuz,
     Phase::decode},
    {"e5m2_prefill", 5, 11, 3, ElementType::float16, ElementType::float8_e5m2, Phase::prefill},
    {"e5m2fnuz_many_heads", 19, 2, 1, ElementType::float16, ElementType::float8_e5m2fnuz,
     Phase::prefill},
};

AttentionCase score_case(const ScoreCase& of) {
  GeneratorOptions options = attention_options(of.kv_heads, of.kv_heads, 3);
  options.model_dtype = of.model_dtype;
  options.config.index_cache_dtype = of.index_dtype;
  options.config.num_tokens = of.tokens;
  options.config.phase = of.phase;
  options.config.decode_query_len = of.query_len;
  options.num_requests = of.requests;
  options.max_context = 300;
  options.empty_row_share = 0.1;
  return zero_case(options);
}

// What the test put into index_q and the index cache.
struct IndexValues {
  std::vector<int> q;  // [T][nkv][128]
  std::vector<int> k;  // [slots][128]
};

IndexValues fill_with_integers(AttentionCase& of) {
  generator::Random random(17);
  const auto count = [](const Tensor& tensor) { return static_cast<std::size_t>(tensor.size()); };
  IndexValues values{std::vector<int>(count(of.inserted.index_q)),
                     std::vector<int>(count(of.inserted.index_cache))};
  const auto draw = [&] { return static_cast<int>(random.integer(-4, 4)); };
  std::ranges::generate(values.q, draw);
  std::ranges::generate(values.k, draw);
  const std::int64_t heads = of.call.config.num_kv_heads;
  for (std::size_t i = 0; i < values.q.size(); ++i) {
    const auto element = static_cast<std::int64_t>(i);
    set_index_q(of, element / kHeadDim / heads, element / kHeadDim % heads, element % kHeadDim,
                values.q[i]);
  }
  for (std::size_t i = 0; i < values.k.size(); ++i) {
    const auto element = static_cast<std::int64_t>(i);
    set_index_k(of, element / kHeadDim, element % kHeadDim, values.k[i]);
  }
  return values;
}

float wanted_score(const AttentionCase& of, const IndexValues& values, std::int64_t row,
                   std::int64_t head, std::int64_t block) {
  const std::int64_t position = of.call.positions.as<std::int64_t>()[static_cast<std::size_t>(row)];
  const std::int64_t last = std::min(position, block * kBlockSize + kBlockSize - 1);
  const std::int64_t request = request_of(of.call, row);
  int best = std::numeric_limits<int>::min();
  for (std::int64_t j = block * kBlockSize; j <= last; ++j) {
    const std::int64_t slot = slot_of(of.call, request, j);
    int dot = 0;
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      const std::int64_t q = (row * of.call.config.num_kv_heads + head) * kHeadDim + d;
      dot += values.q[static_cast<std::size_t>(q)] *
             values.k[static_cast<std::size_t>(slot * kHeadDim + d)];
    }
    best = std::max(best, dot);
  }
  return best == std::numeric_limits<int>::min() ? -kInfinity : static_cast<float>(best);
}

Outputs scores_of(const AttentionCase& of, PathKind kind) {
  return run_stages(of, kind,
                    {.first_stage = AttentionStage::index_score,
                     .last_stage = AttentionStage::index_score,
                     .keep_index_score = true});
}

class IndexScore : public testing::TestWithParam<ScoreCase> {};

TEST_P(IndexScore, IsTheLargestDotOfWhatARowSees) {
  AttentionCase of = score_case(GetParam());
  const IndexValues values = fill_with_integers(of);
  const std::int64_t columns = of.call.block_table.dim(1);
  const std::int64_t tokens = of.call.config.num_tokens;
  for (const PathKind kind : kPathKinds) {
    const Outputs outputs = scores_of(of, kind);
    const auto scores = outputs.index_score.as<float>();
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const auto element = static_cast<std::int64_t>(i);
      const std::int64_t row = element / columns % tokens;
      const std::int64_t head = element / columns / tokens;
      ASSERT_EQ(scores[i], wanted_score(of, values, row, head, element % columns))
          << name_of(kind) << " head " << head << " row " << row << " block " << element % columns;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, IndexScore, testing::ValuesIn(kScoreCases),
                         [](const auto& each) { return each.param.name; });

// One decode row that sees 4 positions of one block.
AttentionCase one_row() {
  GeneratorOptions options = attention_options(1, 1);
  options.config.num_tokens = 1;
  options.min_context = options.max_context = 3;
  AttentionCase of = zero_case(options);
  for (std::int64_t d = 0; d < kHeadDim; ++d) set_index_q(of, 0, 0, d, 1);
  return of;
}

float only_score(const AttentionCase& of, PathKind kind) {
  return scores_of(of, kind).index_score.as<float>()[0];
}

TEST(IndexScoreOrder, AddsInAscendingOrderOfTheDims) {
  AttentionCase of = one_row();
  const std::int64_t slot = slot_of(of.call, 0, 0);
  // 2^25 swallows each 1 that is added to it; what comes after -2^25 counts.
  set_index_k(of, slot, 0, 0x1p25);
  for (std::int64_t d = 1; d < 100; ++d) set_index_k(of, slot, d, 1);
  set_index_k(of, slot, 100, -0x1p25);
  for (std::int64_t d = 101; d < kHeadDim; ++d) set_index_k(of, slot, d, 1);
  for (const PathKind kind : kPathKinds) EXPECT_EQ(only_score(of, kind), 27.0F) << name_of(kind);
}

TEST(IndexScoreNan, IsIgnoredUnlessAllAreNan) {
  AttentionCase of = one_row();
  for (std::int64_t j = 0; j < 3; ++j) {
    set_index_k(of, slot_of(of.call, 0, j), 5, std::numeric_limits<double>::quiet_NaN());
  }
  set_index_k(of, slot_of(of.call, 0, 3), 7, -2);
  for (const PathKind kind : kPathKinds) EXPECT_EQ(only_score(of, kind), -2.0F) << name_of(kind);
  set_index_k(of, slot_of(of.call, 0, 3), 8, std::numeric_limits<double>::quiet_NaN());
  for (const PathKind kind : kPathKinds) {
    EXPECT_TRUE(std::isnan(only_score(of, kind))) << name_of(kind);
  }
}

TEST(IndexScoreZero, IsNeverNegative) {
  AttentionCase of = one_row();
  // The product of the last dim underflows, and +0 with it is -0.
  constexpr std::int64_t kLast = kHeadDim - 1;
  for (std::int64_t d = 0; d < kHeadDim; ++d) set_index_q(of, 0, 0, d, d == kLast ? 0x1p-120 : 0);
  for (std::int64_t j = 0; j < 4; ++j) set_index_k(of, slot_of(of.call, 0, j), kLast, -0x1p-120);
  for (const PathKind kind : kPathKinds) {
    const float score = only_score(of, kind);
    EXPECT_EQ(score, 0.0F) << name_of(kind);
    EXPECT_FALSE(std::signbit(score)) << name_of(kind);
  }
}

}  // namespace
}  // namespace zerodiff::device
