// reference/index_topk.h by hand-made scores (numerics.md section 11), and against the oracle.
#include "reference/index_topk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/oracle/block_selection.h"
#include "tests/reference/attention_calls.h"

namespace zerodiff::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Forcing {
  std::int64_t topk = 16;
  std::int64_t init_blocks = 0;
  std::int64_t local_blocks = 0;
};

LayerCall call_at(const std::vector<std::int64_t>& positions, const Forcing& forcing,
                  std::int64_t num_kv_heads = 1) {
  test::CallShape shape;
  shape.config = test::plain_config(num_kv_heads, num_kv_heads);
  shape.config.topk = forcing.topk;
  shape.config.init_blocks = forcing.init_blocks;
  shape.config.local_blocks = forcing.local_blocks;
  shape.positions = positions;
  return test::decode_call(shape);
}

Tensor scores_tensor(const LayerCall& call, const std::vector<float>& scores) {
  Tensor tensor =
      Tensor::allocate(ElementType::float32,
                       {call.config.num_kv_heads, call.config.num_tokens, call.block_table.dim(1)});
  std::fill(tensor.as<float>().begin(), tensor.as<float>().end(), -kInfinity);
  std::copy(scores.begin(), scores.end(), tensor.as<float>().begin());
  return tensor;
}

struct Selection {
  std::string name;
  Forcing forcing;
  std::vector<float> scores;  // of the visible blocks of one token
  std::vector<std::int32_t> wanted;
};
void PrintTo(const Selection& selection, std::ostream* out) {
  *out << selection.name;
}

class IndexTopk : public testing::TestWithParam<Selection> {};

TEST_P(IndexTopk, Selects) {
  const Selection& row = GetParam();
  const auto visible = static_cast<std::int64_t>(row.scores.size());
  const LayerCall call = call_at({visible * kBlockSize - 1}, row.forcing);
  const Tensor selection = index_topk(call, scores_tensor(call, row.scores));
  EXPECT_EQ(selection.shape(), (Shape{1, 1, row.forcing.topk}));
  EXPECT_EQ(test::elements_of(selection), row.wanted);
}

INSTANTIATE_TEST_SUITE_P(
    , IndexTopk,
    testing::Values(
        Selection{"one_block", {1}, {5}, {0}},
        Selection{"wider_than_visible", {4}, {5, 7}, {1, 0, -1, -1}},
        Selection{"best_first", {3}, {1, 4, 2, 3}, {1, 3, 2}},
        Selection{"ties_by_id", {4}, {2, 3, 3, 2, 3, 2}, {1, 2, 4, 0}},
        Selection{"all_equal", {3}, {1, 1, 1, 1, 1}, {0, 1, 2}},
        Selection{"zeros_of_both_signs_tie", {3}, {-0.0F, 0.0F, -0.0F, 0.0F}, {0, 1, 2}},
        Selection{"nan_below_every_usual_number", {3}, {kNan, -1e29F, -5}, {2, 1, 0}},
        Selection{"nan_ties_with_minus_1e30", {3}, {-1e30F, kNan, -1e30F}, {0, 1, 2}},
        Selection{"nan_above_minus_infinity", {3}, {-kInfinity, kNan, -3e38F}, {1, 2, 0}},
        Selection{"all_nan", {2}, {kNan, kNan, kNan}, {0, 1}},
        Selection{"infinities", {3}, {-kInfinity, kInfinity, 0}, {1, 2, 0}},
        Selection{"all_minus_infinity", {2}, {-kInfinity, -kInfinity, -kInfinity}, {0, 1}},
        Selection{"init_first", {2, 1, 0}, {-9, 3, 4, 5}, {0, 3}},
        Selection{"init_by_id", {4, 3, 0}, {1, 2, 3, 4, 5}, {0, 1, 2, 4}},
        Selection{"local_first", {2, 0, 1}, {7, 9, 8, 1}, {3, 1}},
        Selection{"local_by_id", {3, 0, 2}, {7, 9, 8, 1}, {2, 3, 1}},
        Selection{"init_before_local", {3, 1, 1}, {1, 9, 8, 2}, {0, 3, 1}},
        Selection{"block_that_is_both_ranks_as_local", {3, 3, 2}, {1, 2, 3, 4}, {0, 1, 2}},
        Selection{"both_is_after_the_pure_init", {4, 2, 3}, {1, 2, 3, 4}, {0, 1, 2, 3}},
        Selection{"only_block_is_both", {2, 1, 1}, {-3}, {0, -1}},
        Selection{"local_larger_than_visible", {2, 0, 99}, {1, 2, 3}, {0, 1}},
        Selection{"local_swallows_init", {2, 1, 99}, {1, 2, 3}, {0, 1}},
        Selection{"init_larger_than_visible", {4, 99, 1}, {1, 2, 3}, {0, 1, 2, -1}},
        Selection{"init_larger_than_topk", {2, 4, 1}, {1, 2, 3, 4, 5, 6}, {0, 1}},
        Selection{"local_larger_than_topk", {2, 0, 4}, {1, 2, 3, 4, 5, 6}, {2, 3}},
        Selection{"forced_nan", {2, 0, 1}, {1, 2, kNan}, {2, 1}},
        Selection{"larger_than_forced", {2, 1, 1}, {1, 2e30F, 3e29F, 4}, {1, 0}},
        Selection{"between_init_and_local", {3, 1, 1}, {1, 5e29F, 2, 4}, {0, 1, 3}},
        Selection{"ties_with_forced", {3, 0, 1}, {1e29F, 1, 1e29F, 4}, {0, 2, 3}},
        Selection{"infinity_beats_init", {1, 1, 1}, {0, kInfinity, 0}, {1}},
        // The last token of the small decode capture.
        Selection{"captured", {4, 0, 1}, {60.5F, 45.9F, 59, 55.6F, 52.9F, 55}, {5, 0, 2, 3}},
        Selection{"captured_init", {4, 1, 1}, {60.5F, 45.9F, 59, 55.6F, 52.9F, 55}, {0, 5, 2, 3}},
        Selection{"captured_unforced", {4}, {60.5F, 45.9F, 59, 55.6F, 52.9F, 55}, {0, 2, 3, 5}}),
    [](const auto& row) { return row.param.name; });

TEST(IndexTopkRows, EmptyRowsAreAllMinusOne) {
  const LayerCall call = call_at({-1, 300, INT64_MIN}, {4, 1, 1}, 2);
  const std::vector<std::int32_t> wanted{-1, -1, -1, -1, 0, 2, 1, -1, -1, -1, -1, -1,
                                         -1, -1, -1, -1, 0, 2, 1, -1, -1, -1, -1, -1};
  std::vector<float> scores(24, 5);  // an empty row's scores do not matter
  EXPECT_EQ(test::elements_of(index_topk(call, scores_tensor(call, scores))), wanted);
}

TEST(IndexTopkRows, NoTokens) {
  LayerCall call = call_at({5}, {4, 1, 1}, 2);
  call.config.num_tokens = 0;
  call.query_start_loc = test::int32_tensor({2}, {0, 0});
  EXPECT_EQ(index_topk(call, scores_tensor(call, {})).shape(), (Shape{2, 0, 4}));
}

// Columns past the visible blocks hold numbers here, as a path's own scores may.
TEST(IndexTopkRows, BlocksThatAreNotVisibleAreNeverSelected) {
  const LayerCall call = call_at({127, 128, 500}, {4, 0, 1});
  ASSERT_EQ(call.block_table.dim(1), 5);
  const std::vector<float> scores(15, 7);
  const std::vector<std::int32_t> wanted{0, -1, -1, -1, 1, 0, -1, -1, 3, 0, 1, 2};
  EXPECT_EQ(test::elements_of(index_topk(call, scores_tensor(call, scores))), wanted);
}

class IndexTopkWidth : public testing::TestWithParam<std::int64_t> {};

// Scores of few values, so that most are ties; every number of visible blocks around the width.
TEST_P(IndexTopkWidth, EqualsTheOracle) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  const float values[] = {0, 1, 2, 3, -1, kNan, 1e29F, -1e30F, 1e30F, 2e30F, kInfinity, -kInfinity};
  std::vector<std::int64_t> positions;
  for (std::int64_t visible = 1; visible <= 70; ++visible) {
    positions.push_back(visible * kBlockSize - 1 - static_cast<std::int64_t>(random() % 128));
  }
  for (int round = 0; round < 8; ++round) {
    Forcing forcing{GetParam()};
    forcing.init_blocks = round < 4 ? round : static_cast<std::int64_t>(random() % 80);
    forcing.local_blocks = static_cast<std::int64_t>(random() % (round == 7 ? 80 : 4));
    const LayerCall call = call_at(positions, forcing);
    Tensor scores = scores_tensor(call, {});
    const std::uint64_t kinds = round % 2 == 0 ? 5 : std::size(values);
    for (float& score : scores.as<float>()) score = values[random() % kinds];
    ASSERT_EQ(test::elements_of(index_topk(call, scores)),
              test::elements_of(oracle::index_topk(call, scores)))
        << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(, IndexTopkWidth, testing::Range<std::int64_t>(1, 65));

}  // namespace
}  // namespace zerodiff::reference
