// reference/sparse_attention.h by closed forms (numerics.md section 13). Random calls against the
// oracle are in attention_random_test.cc, a bound from binary64 in attention_bound_test.cc.
#include "reference/sparse_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "reference/layer.h"
#include "tests/oracle/number_formats.h"
#include "tests/reference/attention_calls.h"

namespace zerodiff::reference {
namespace {

using test::bits_at;
using test::put;
using test::value_at;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// One row a request, everything zero; index scores tie, so the own block and the lowest ids are
// selected. Tests set q, K and V and then run the stages after insertion.
struct AttentionCase {
  LayerCall call;
  Outputs outputs;

  explicit AttentionCase(const test::CallKind& kind, std::vector<std::int64_t> positions,
                         std::int64_t num_heads = 1, std::int64_t num_kv_heads = 1,
                         std::int64_t pool_blocks = 17) {
    test::CallShape shape;
    shape.config = test::plain_config(num_heads, num_kv_heads);
    shape.kind = kind;
    shape.positions = std::move(positions);
    shape.pool_blocks = pool_blocks;
    call = test::decode_call(shape);
    outputs = test::zero_insertion(call);
  }

  void query(std::int64_t row, std::int64_t head, std::int64_t d, float value) {
    put(outputs.q, (row * call.config.num_heads + head) * kHeadDim + d, value);
  }
  void key(std::int64_t slot, std::int64_t head, std::int64_t d, float value) {
    put(test::k_pool(call, outputs), test::k_element(call, slot, head, d), value);
  }
  void value(std::int64_t slot, std::int64_t head, std::int64_t d, float value) {
    put(test::v_pool(call, outputs), test::v_element(call, slot, head, d), value);
  }
  void all_values(float value) {
    for (std::int64_t slot = 0; slot < call.num_slots(); ++slot) {
      for (std::int64_t d = 0; d < kHeadDim; ++d) this->value(slot, 0, d, value);
    }
  }
  // Makes s = dot exactly: sm_scale is the binary32 nearest to ln 2.
  void set_unit_score_scale() {
    call.config.sm_scale = 0x1.62e43p-1F;
    ASSERT_EQ(call.config.sm_scale * 0x1.715476p+0F, 1.0F);
  }

  void run() { run_after_insertion(call, outputs, {.threads = 1, .keep_index_score = false}); }
  float out(std::int64_t row, std::int64_t head, std::int64_t d) const {
    return value_at(outputs.attn_output, element(row, head, d));
  }
  std::uint32_t out_bits(std::int64_t row, std::int64_t head, std::int64_t d) const {
    return bits_at(outputs.attn_output, element(row, head, d));
  }
  // MD(value) as bits.
  std::uint32_t model_bits(float value) const {
    return oracle::encode_model_dtype(call.model_dtype(), value);
  }
  std::int64_t element(std::int64_t row, std::int64_t head, std::int64_t d) const {
    return (row * call.config.num_heads + head) * kHeadDim + d;
  }

  // The slots that row `row` attends to with topk 16: every position, or the own block and 0..14.
  std::vector<std::int64_t> attended_slots(std::int64_t row) const {
    const std::int64_t p = call.positions.as<std::int64_t>()[static_cast<std::size_t>(row)];
    std::vector<std::int64_t> slots;
    for (std::int64_t j = 0; j <= p; ++j) {
      const std::int64_t block = j / kBlockSize;
      if (block < 15 || block == p / kBlockSize) slots.push_back(test::slot_of(call, row, j));
    }
    return slots;
  }
};

class SparseAttention : public testing::TestWithParam<test::CallKind> {};

INSTANTIATE_TEST_SUITE_P(, SparseAttention, testing::ValuesIn(test::kCallKinds),
                         [](const auto& row) { return std::string(row.param.name); });

// A single weight of 1: the output is V as attention reads it, but +0 for -0 (0 is added to it).
TEST_P(SparseAttention, OneLiveTokenReturnsItsV) {
  AttentionCase test(GetParam(), {0}, 2, 2);
  std::mt19937_64 random(7);
  const bool fp8 = is_fp8(test.call.kv_cache_type());
  if (fp8) {
    for (float& scale : test.call.v_scale.as<float>())
      scale = 0.3F + static_cast<float>(random() % 64) / 97;
  }
  const std::int64_t slot = test::slot_of(test.call, 0, 0);
  Tensor& pool = test::v_pool(test.call, test.outputs);
  for (std::int64_t head = 0; head < 2; ++head) {
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      test.query(0, head, d, static_cast<float>(random() % 16) - 8);
      test.key(slot, head, d, static_cast<float>(random() % 16) - 8);
      const auto magnitude = static_cast<float>(std::ldexp(random() % 1024, -8));
      test.value(slot, head, d, d == 1 ? -0.0F : (d % 2 == 0 ? magnitude : -magnitude));
    }
  }
  test.run();
  for (std::int64_t head = 0; head < 2; ++head) {
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      float v = value_at(pool, test::v_element(test.call, slot, head, d));
      const auto scales =
          test.call.v_scale.present() ? test.call.v_scale.as<float>() : std::span<float>();
      if (fp8)
        v *= scales[scales.size() == 1
                        ? 0
                        : static_cast<std::size_t>(head * test.call.num_slots() + slot)];
      EXPECT_EQ(test.out_bits(0, head, d), test.model_bits(v + 0.0F)) << head << ' ' << d;
    }
  }
}

std::vector<std::int64_t> dense_positions() {
  std::vector<std::int64_t> positions;
  for (std::int64_t context = 1; context <= 288; ++context) positions.push_back(context - 1);
  for (std::int64_t context = 2030; context <= 2070; ++context) positions.push_back(context - 1);
  return positions;
}

// Small integers that every format holds.
int small_integer(std::int64_t slot, std::int64_t d) {
  return static_cast<int>((slot * 7 + slot / 16 + d) % 9) - 4;
}

// q = 0: every weight is 1, the sums are exact, and the output is the mean rounded to binary32 and
// then to the model dtype. A token more or less, or another one, changes it.
TEST_P(SparseAttention, EqualScoresGiveTheMeanOfTheLiveTokensForEveryContext) {
  AttentionCase test(GetParam(), dense_positions());
  const std::int64_t dims[] = {0, 1, 15, 16, 64, 127};
  for (std::int64_t slot = 0; slot < test.call.num_slots(); ++slot) {
    for (const std::int64_t d : dims) {
      test.value(slot, 0, d, static_cast<float>(small_integer(slot, d)));
      test.key(slot, 0, d, 3);
    }
  }
  test.run();
  for (std::int64_t row = 0; row < test.call.config.num_tokens; ++row) {
    const std::vector<std::int64_t> slots = test.attended_slots(row);
    for (const std::int64_t d : dims) {
      int sum = 0;
      for (const std::int64_t slot : slots) sum += small_integer(slot, d);
      const float mean = static_cast<float>(sum) / static_cast<float>(slots.size());
      ASSERT_EQ(test.out_bits(row, 0, d), test.model_bits(mean))
          << slots.size() << " tokens, dim " << d;
    }
  }
}

// Scores that are small negative integers give weights that are exact powers of two, and sums that
// binary32 holds exactly: the output is the exact quotient rounded twice. Block maxima differ, so
// the merge has weights other than 1.
TEST_P(SparseAttention, PowerOfTwoWeightsGiveTheExactQuotient) {
  AttentionCase test(GetParam(), {0, 1, 16, 100, 127, 128, 255, 256, 400, 2047, 2048, 2100});
  test.set_unit_score_scale();
  const auto exponent = [](std::int64_t slot) {
    return (slot * 5 + slot / 128 * 3) % 9 / 2 + slot / 128 % 4;
  };
  const std::int64_t rows = test.call.config.num_tokens;
  for (std::int64_t row = 0; row < rows; ++row) test.query(row, 0, 77, 1);
  for (std::int64_t slot = 0; slot < test.call.num_slots(); ++slot) {
    test.key(slot, 0, 77, static_cast<float>(-exponent(slot)));
    test.value(slot, 0, 0, 1);
    for (std::int64_t d = 1; d < 8; ++d) {
      test.value(slot, 0, d, static_cast<float>(small_integer(slot, d)));
    }
  }
  test.run();
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t denominator = 0;
    std::int64_t numerators[8] = {};
    for (const std::int64_t slot : test.attended_slots(row)) {
      const std::int64_t weight = std::int64_t{256} >> exponent(slot);
      denominator += weight;
      for (std::int64_t d = 1; d < 8; ++d) numerators[d] += weight * small_integer(slot, d);
    }
    EXPECT_EQ(test.out(row, 0, 0), 1) << "row " << row;
    for (std::int64_t d = 1; d < 8; ++d) {
      const float quotient = static_cast<float>(numerators[d]) / static_cast<float>(denominator);
      EXPECT_EQ(test.out_bits(row, 0, d), test.model_bits(quotient)) << "row " << row << ' ' << d;
    }
  }
}

TEST_P(SparseAttention, ConstantVGivesThatConstant) {
  for (const float constant : {1.0F, -2.0F}) {
    AttentionCase test(GetParam(), {0, 5, 127, 128, 300, 2050});
    test.all_values(constant);
    test.run();
    for (std::int64_t i = 0; i < test.outputs.attn_output.size(); ++i) {
      ASSERT_EQ(value_at(test.outputs.attn_output, i), constant) << i;
    }
  }
}

TEST_P(SparseAttention, QueryHeadsReadTheirGroupsKvHead) {
  AttentionCase test(GetParam(), {140, 3}, 6, 3, 4);
  for (std::int64_t slot = 0; slot < test.call.num_slots(); ++slot) {
    for (std::int64_t head = 0; head < 3; ++head) {
      test.value(slot, head, 20, static_cast<float>(head + 1));
    }
  }
  test.run();
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t g = 0; g < 6; ++g) {
      const std::int64_t kv_head = g / 2;
      EXPECT_EQ(test.out(row, g, 20), static_cast<float>(kv_head + 1)) << row << ' ' << g;
      EXPECT_EQ(test.out(row, g, 21), 0) << row << ' ' << g;
    }
  }
}

TEST_P(SparseAttention, RowsWithoutBlocksGivePlusZero) {
  AttentionCase test(GetParam(), {-1, 4, INT64_MIN}, 2);
  test.all_values(-3);
  test.run();
  for (std::int64_t head = 0; head < 2; ++head) {
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      ASSERT_EQ(test.out_bits(0, head, d), 0U);
      ASSERT_EQ(test.out(1, head, d), -3);
      ASSERT_EQ(test.out_bits(2, head, d), 0U);
    }
  }
}

TEST_P(SparseAttention, NanInKSpoilsTheHeadAndNanInVOneDim) {
  AttentionCase test(GetParam(), {129, 129}, 2, 2, 6);
  const std::int64_t last_of_row_0 = test::slot_of(test.call, 0, 129);
  const std::int64_t first_of_row_1 = test::slot_of(test.call, 1, 0);
  test.key(last_of_row_0, 1, 3, kNan);
  test.value(first_of_row_1, 0, 99, kNan);
  test.run();
  for (std::int64_t head = 0; head < 2; ++head) {
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      EXPECT_EQ(std::isnan(test.out(0, head, d)), head == 1) << head << ' ' << d;
      EXPECT_EQ(std::isnan(test.out(1, head, d)), head == 0 && d == 99) << head << ' ' << d;
    }
  }
}

// The tail of the last block, and a neighbour's block, are not read at all.
TEST_P(SparseAttention, NanInDeadTokensDoesNothing) {
  AttentionCase test(GetParam(), {129}, 1, 1, 4);
  test.all_values(1);
  std::vector<bool> live(static_cast<std::size_t>(test.call.num_slots()), false);
  for (const std::int64_t slot : test.attended_slots(0))
    live[static_cast<std::size_t>(slot)] = true;
  for (std::int64_t slot = 0; slot < test.call.num_slots(); ++slot) {
    if (live[static_cast<std::size_t>(slot)]) continue;
    test.key(slot, 0, 0, kNan);
    test.value(slot, 0, 0, kNan);
  }
  test.run();
  EXPECT_EQ(std::count(live.begin(), live.end(), true), 130);
  for (std::int64_t d = 0; d < kHeadDim; ++d) EXPECT_EQ(test.out(0, 0, d), 1) << d;
}

struct FarScore {
  float score;        // of the second token or block; the first has 0
  float at_bfloat16;  // output for V = 0 and 1.5
  float at_float16;
};
void PrintTo(const FarScore& far, std::ostream* out) {
  *out << far.score;
}

class SparseAttentionFarScore : public testing::TestWithParam<FarScore> {};

// P is rounded to the model dtype, so that inside a block its underflow is float16's.
TEST_P(SparseAttentionFarScore, InOneBlock) {
  for (const test::CallKind& kind : {test::kBfloat16, test::kFloat16}) {
    AttentionCase test(kind, {1});
    test.set_unit_score_scale();
    test.query(0, 0, 0, 1);
    test.key(test::slot_of(test.call, 0, 1), 0, 0, GetParam().score);
    test.value(test::slot_of(test.call, 0, 1), 0, 8, 1.5F);
    test.run();
    const float wanted =
        kind.model_dtype == ElementType::bfloat16 ? GetParam().at_bfloat16 : GetParam().at_float16;
    EXPECT_EQ(test.out(0, 0, 8), wanted) << kind.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    , SparseAttentionFarScore,
    testing::Values(
        // 2^-23 * 1.5 / (1 + 2^-23), and so on; float16 subnormals are multiples of 2^-24.
        FarScore{-23, 0x1.8p-23F, 0x1.8p-23F}, FarScore{-24, 0x1.8p-24F, 0x1p-23F},
        FarScore{-25, 0x1.8p-25F, 0},  // P is a tie: to even, 0
        FarScore{-26, 0x1.8p-26F, 0}, FarScore{-125, 0x1.8p-125F, 0}, FarScore{-126, 0, 0},
        FarScore{-1000, 0, 0}));

// Between blocks the weight is not rounded: 2^-125 still counts, anything smaller does not.
TEST(SparseAttentionMerge, WeightsOfBlocksEndAtTwoToTheMinus125) {
  for (const float far : {-24.0F, -125.0F, -125.5F, -126.0F, -3000.0F}) {
    AttentionCase test(test::kBfloat16, {255});
    test.set_unit_score_scale();
    test.query(0, 0, 0, 1);
    for (std::int64_t j = 0; j < 128; ++j) {
      test.key(test::slot_of(test.call, 0, j), 0, 0, far);
      test.value(test::slot_of(test.call, 0, j), 0, 8, 1);
    }
    test.run();
    // 128 weights of 2^far over 128 of 1 (and of 2^far, which is nothing).
    EXPECT_EQ(test.out(0, 0, 8), far < -125 ? 0 : std::ldexp(1.0F, static_cast<int>(far))) << far;
  }
}

// Each block is summed in order on its own and merged in table order, the own block last. 2^24 + 1
// is a tie that loses the 1.
TEST(SparseAttentionOrder, TokensInOrderThenBlocksInTableOrder) {
  AttentionCase test(test::kBfloat16, {383}, 1, 1, 3);
  const auto value = [&](std::int64_t position, std::int64_t d, float v) {
    test.value(test::slot_of(test.call, 0, position), 0, d, v);
  };
  for (std::int64_t j = 1; j < 127; ++j) value(j, 0, 1);  // in one block: every 1 is lost
  value(0, 0, 0x1p24F);
  value(127, 0, -0x1p24F);
  value(5, 1, 0x1p24F);  // in three blocks: the middle one's 1 is lost
  value(200, 1, 1);
  value(300, 1, -0x1p24F);
  value(5, 2, 0x1p24F);  // the own block is added last
  value(200, 2, -0x1p24F);
  value(300, 2, 1);
  value(5, 3, 0x1p24F);  // a block's own sum is not spread over the blocks: 1 - 1 is 0 first
  value(200, 3, 1);
  value(201, 3, 1);
  value(300, 3, -0x1p24F);
  test.run();
  EXPECT_EQ(test.out(0, 0, 0), 0);
  EXPECT_EQ(test.out(0, 0, 1), 0);
  EXPECT_EQ(test.out_bits(0, 0, 2), test.model_bits(1.0F / 384));
  EXPECT_EQ(test.out_bits(0, 0, 3), test.model_bits(2.0F / 384));
}

TEST(SparseAttentionSpecial, InfinitiesFollowIeee) {
  AttentionCase test(test::kBfloat16, {3, 3, 3}, 1, 1, 9);
  for (std::int64_t row = 0; row < 3; ++row) test.query(row, 0, 0, 1);
  const auto slot = [&](std::int64_t row, std::int64_t j) {
    return test::slot_of(test.call, row, j);
  };
  test.value(slot(0, 2), 0, 4, kInfinity);
  test.value(slot(0, 1), 0, 5, kInfinity);
  test.value(slot(0, 2), 0, 5, -kInfinity);
  test.key(slot(1, 2), 0, 0, -kInfinity);  // weight 0
  test.value(slot(1, 2), 0, 6, 100);
  test.key(slot(2, 2), 0, 0, kInfinity);  // infinity - infinity
  test.run();
  EXPECT_EQ(test.out(0, 0, 4), kInfinity);
  EXPECT_TRUE(std::isnan(test.out(0, 0, 5)));
  EXPECT_EQ(test.out(0, 0, 6), 0);
  EXPECT_EQ(test.out(1, 0, 6), 0);
  for (std::int64_t d = 0; d < kHeadDim; ++d) EXPECT_TRUE(std::isnan(test.out(2, 0, d))) << d;
}

}  // namespace
}  // namespace zerodiff::reference
