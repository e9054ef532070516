// Selections from given scores, against a plain sort: few blocks and thousands of them, distinct,
// clustered and equal scores, forced blocks, and scores that are not numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "fixtures/generator_random.h"
#include "tests/device/attention_test_support.h"

namespace zerodiff::device {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using MakeScore = float (*)(generator::Random&);

float distinct(generator::Random& random) {
  return static_cast<float>(random.integer(-1'000'000, 1'000'000)) * 0x1p-7F;
}
float clustered(generator::Random& random) {
  return 3.0F + static_cast<float>(random.integer(0, 3)) * 0x1p-22F;
}
float equal(generator::Random&) {
  return -7.5F;
}
float any_sign(generator::Random& random) {
  return static_cast<float>(random.integer(-2, 2));
}
float negative_zero_too(generator::Random& random) {
  return random.coin() ? 0.0F : -0.0F;
}
float not_numbers(generator::Random& random) {
  return random.pick({kNan, -kNan, kInfinity, -kInfinity, 1e30F, -1e30F, 2e30F, 0.0F});
}

struct TopkCase {
  std::string name;
  MakeScore score;
  std::int64_t context;  // of the first row
  std::int64_t topk;
  std::int64_t init_blocks = 0;
  std::int64_t local_blocks = 1;
  std::int64_t kv_heads = 1;
};

const TopkCase kTopkCases[] = {
    {"one_block", distinct, 0, 1},
    {"one_block_of_many_wanted", distinct, 126, 64},
    {"exactly_topk", distinct, 16 * 128 - 3, 16},
    {"one_more_than_topk", distinct, 16 * 128, 16, 0, 0},
    {"topk_1_unforced", any_sign, 1000, 1, 0, 0, 3},
    {"ties_fill_the_row", equal, 5000, 16, 0, 0},
    {"ties_with_forced", equal, 5000, 5, 2, 2},
    {"more_forced_than_topk", distinct, 5000, 4, 6, 5},
    {"all_forced", distinct, 700, 4, 100, 100},
    {"signed_zeros_are_equal", negative_zero_too, 4000, 16, 0, 0},
    {"not_numbers", not_numbers, 9000, 64, 1, 1, 2},
    {"not_numbers_fewer_than_topk", not_numbers, 2000, 64, 0, 0},
    {"thousands_distinct", distinct, 1'048'570, 64, 1, 2},
    {"thousands_clustered", clustered, 1'048'570, 64, 0, 0},
    {"thousands_equal", equal, 700'000, 16},
};

AttentionCase topk_case(const TopkCase& of) {
  GeneratorOptions options = attention_options(of.kv_heads, of.kv_heads);
  options.config.topk = of.topk;
  options.config.init_blocks = of.init_blocks;
  options.config.local_blocks = of.local_blocks;
  options.config.num_tokens = 4;
  options.min_context = options.max_context = of.context;
  options.max_context_blocks = 2;
  options.empty_row_share = 0.2;
  options.sparse_rope_table = true;
  AttentionCase made{generate_call(options), {}};
  const LayerCall& call = made.call;
  made.inserted.index_score = Tensor::allocate(
      ElementType::float32, {of.kv_heads, call.config.num_tokens, call.block_table.dim(1)});
  generator::Random random(5);
  std::ranges::generate(made.inserted.index_score.as<float>(), [&] { return of.score(random); });
  return made;
}

// The row of a head, by numerics.md section 11.
std::vector<std::int32_t> wanted_row(const AttentionCase& of, std::int64_t head, std::int64_t row) {
  const LayerConfig& config = of.call.config;
  std::vector<std::int32_t> selected(static_cast<std::size_t>(config.topk), -1);
  const std::int64_t position = of.call.positions.as<std::int64_t>()[static_cast<std::size_t>(row)];
  if (position < 0) return selected;
  const std::int64_t visible = position / kBlockSize + 1;
  const std::int64_t first = (head * config.num_tokens + row) * of.call.block_table.dim(1);
  struct Candidate {
    float score;
    std::int32_t block;
  };
  std::vector<Candidate> candidates;
  for (std::int64_t b = 0; b < visible; ++b) {
    float score = of.inserted.index_score.as<float>()[static_cast<std::size_t>(first + b)];
    if (std::isnan(score)) score = -1e30F;
    if (b < config.init_blocks) score = 1e30F;
    if (b >= visible - config.local_blocks) score = 1e29F;
    candidates.push_back({score, static_cast<std::int32_t>(b)});
  }
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.block < b.block;
  });
  for (std::size_t i = 0; i < std::min(selected.size(), candidates.size()); ++i) {
    selected[i] = candidates[i].block;
  }
  return selected;
}

class IndexTopk : public testing::TestWithParam<TopkCase> {};

TEST_P(IndexTopk, TakesTheBestByScoreThenById) {
  const AttentionCase of = topk_case(GetParam());
  const auto topk = static_cast<std::size_t>(of.call.config.topk);
  for (const PathKind kind : kPathKinds) {
    // To the table, so that the fused path takes its own kernel.
    const Outputs outputs = run_stages(of, kind,
                                       {.first_stage = AttentionStage::index_topk,
                                        .last_stage = AttentionStage::sparse_block_table});
    const auto selected = outputs.topk_index.as<std::int32_t>();
    for (std::size_t i = 0; i < selected.size(); i += topk) {
      const auto row = static_cast<std::int64_t>(i / topk) % of.call.config.num_tokens;
      const auto head = static_cast<std::int64_t>(i / topk) / of.call.config.num_tokens;
      const std::vector<std::int32_t> found(
          selected.begin() + static_cast<std::ptrdiff_t>(i),
          selected.begin() + static_cast<std::ptrdiff_t>(i + topk));
      ASSERT_EQ(found, wanted_row(of, head, row))
          << name_of(kind) << " head " << head << " row " << row;
    }
  }
}

TEST_P(IndexTopk, IsTheSameAsAStageOfItsOwnInTheFusedPath) {
  const AttentionCase of = topk_case(GetParam());
  const AttentionOptions alone{.first_stage = AttentionStage::index_topk,
                               .last_stage = AttentionStage::index_topk};
  const AttentionOptions with_table{.first_stage = AttentionStage::index_topk,
                                    .last_stage = AttentionStage::sparse_block_table};
  const Outputs selection = run_stages(of, PathKind::fused, alone);
  const Outputs both = run_stages(of, PathKind::fused, with_table);
  EXPECT_TRUE(identical(selection.topk_index, both.topk_index));
  EXPECT_FALSE(selection.sparse_block_table.present());
}

INSTANTIATE_TEST_SUITE_P(Scores, IndexTopk, testing::ValuesIn(kTopkCases),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace zerodiff::device
