// Scores and attention against plain binary64, within bounds derived from the data.
//
// u = 2^-24 is binary32's unit roundoff, g(n) = n u / (1 - n u) bounds n roundings in a row, and
// every rounding may also lose 2^-150 to underflow. Binary64's own errors are covered by kSlack.
//
// Score of token i. d = sum q k, A = sum |q k|, c = sm_scale * log2(e) exactly, C as rounded:
//   |dot - d| <= g(128) A + 128 * 2^-150                                               =: Ed
//   |s - c d| <= C Ed + |C - c| |d| + u C (|d| + Ed) + 2^-150                          =: Es
// Weight. y = 2^(c d - largest) is exact; computed is EXP2(s - m_n) EXP2(m_n - M). Both arguments
// are at most T = (largest - smallest c d) + 2 max Es in size and rounded once, both EXP2 err by
// 0.948257 ulp, of at most 2^-23, and give 0 below 2^-125. Against 2^M instead of 2^largest, which
// numerator and denominator share, absolute errors grow by at most G = 2^(max Es):
//   |weight - y| <= r y + 2^-124 G,      r := 2^(Es + 2 u T) (1 + 0.948257 * 2^-23)^2 - 1
// Denominator, N blocks: lane_sum128 is 3 + 5 additions deep, each merge one fma:
//   |L' - L| <= sum ((1 + r)(1 + g(8 + N)) - 1) y + 2^-123 G a token                   =: EL
// Numerator: P is rounded to the model dtype, with unit roundoff v and half a smallest subnormal h:
//   |O' - O| <= sum |V| (((1 + r)(1 + v)(1 + g(128 + N)) - 1) y + 2 (2^-124 + h) G)
//               + 129 N * 2^-150                                                       =: EO
// Quotient x = O/L, divided with one rounding and rounded to the model dtype:
//   |x' - x| <= (EO + |x| EL) / (L - EL) =: E,   bound = E + (u + v (1 + u)) (|x| + E) + h
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "reference/layer.h"
#include "reference/sparse_attention.h"
#include "tests/oracle/number_formats.h"
#include "tests/reference/attention_calls.h"

namespace zerodiff::reference {
namespace {

constexpr double kUnit = 0x1p-24;
constexpr double kUnderflow = 0x1p-150;
constexpr double kSlack = 1 + 0x1p-30;
constexpr double kExp2Error = 0.948257 * 0x1p-23;
constexpr double kLog2E = 1.4426950408889634;

double roundings(double n) {
  return n * kUnit / (1 - n * kUnit);
}

struct ModelDtypeError {
  double unit;            // v
  double half_subnormal;  // h
};
ModelDtypeError model_dtype_error(ElementType type) {
  return type == ElementType::bfloat16 ? ModelDtypeError{0x1p-8, 0x1p-134}
                                       : ModelDtypeError{0x1p-11, 0x1p-25};
}

using Head = std::array<double, 128>;

// k and v of the live tokens of one (token, kv head) as a conforming reader sees them.
struct RowTokens {
  std::vector<Head> k;
  std::vector<Head> v;
};

// MD(RN(decode(code) * scale)), or the stored value without scales.
double dequantised(const LayerCall& call, const Tensor& pool, std::int64_t element,
                   const Tensor& scales, std::int64_t scale) {
  float value = test::value_at(pool, element);
  if (!scales.present()) return static_cast<double>(value);
  const auto values = scales.as<float>();
  value *= values[values.size() == 1 ? 0 : static_cast<std::size_t>(scale)];
  return oracle::decode(call.model_dtype(), oracle::encode_model_dtype(call.model_dtype(), value));
}

RowTokens read_row(const LayerCall& call, const Outputs& outputs, std::int64_t row,
                   std::int64_t head) {
  const std::int64_t table_row = row * call.config.num_kv_heads + head;
  const std::int64_t live =
      outputs.sparse_context_lens.as<std::int32_t>()[static_cast<std::size_t>(table_row)];
  RowTokens tokens;
  tokens.k.resize(static_cast<std::size_t>(live));
  tokens.v.resize(static_cast<std::size_t>(live));
  for (std::int64_t i = 0; i < live; ++i) {
    const std::int64_t slot = test::slot_in_table(call, outputs, row, head, i);
    const std::int64_t scale = head * call.num_slots() + slot;
    for (std::int64_t d = 0; d < 128; ++d) {
      const auto token = static_cast<std::size_t>(i);
      const auto dim = static_cast<std::size_t>(d);
      tokens.k[token][dim] = dequantised(call, test::k_pool(call, outputs),
                                         test::k_element(call, slot, head, d), call.k_scale, scale);
      tokens.v[token][dim] = dequantised(call, test::v_pool(call, outputs),
                                         test::v_element(call, slot, head, d), call.v_scale, scale);
    }
  }
  return tokens;
}

Head read_query(const LayerCall& call, const Outputs& outputs, std::int64_t row, std::int64_t g) {
  Head q;
  for (std::size_t d = 0; d < 128; ++d) {
    const std::int64_t element = (row * call.config.num_heads + g) * 128;
    q[d] = static_cast<double>(test::value_at(outputs.q, element + static_cast<std::int64_t>(d)));
  }
  return q;
}

// Per token: the exact c d, Es, then y and r as above.
struct Weights {
  std::vector<double> score;
  std::vector<double> score_error;
  std::vector<double> y;
  std::vector<double> r;
  double growth = 1;  // G

  Weights(const Head& q, const RowTokens& tokens, float sm_scale) {
    const double c = static_cast<double>(sm_scale) * kLog2E;
    const auto rounded_c = static_cast<double>(sm_scale * 0x1.715476p+0F);
    for (const Head& k : tokens.k) {
      double dot = 0;
      double magnitude = 0;
      for (std::size_t d = 0; d < 128; ++d) {
        dot += q[d] * k[d];
        magnitude += std::fabs(q[d] * k[d]);
      }
      const double dot_error = roundings(128) * magnitude + 128 * kUnderflow;
      score.push_back(c * dot);
      score_error.push_back(rounded_c * dot_error + std::fabs(rounded_c - c) * std::fabs(dot) +
                            kUnit * rounded_c * (std::fabs(dot) + dot_error) + kUnderflow);
    }
    const double worst = *std::max_element(score_error.begin(), score_error.end());
    const auto [smallest, largest] = std::minmax_element(score.begin(), score.end());
    const double widest = *largest - *smallest + 2 * worst;
    growth = std::exp2(worst);
    for (std::size_t i = 0; i < score.size(); ++i) {
      y.push_back(std::exp2(score[i] - *largest));
      r.push_back(
          std::exp2(score_error[i] + 2 * kUnit * widest) * (1 + kExp2Error) * (1 + kExp2Error) - 1);
    }
  }
};

struct Bounded {
  double exact;
  double bound;
};

// Dim d of the output.
Bounded attend(const RowTokens& tokens, const Weights& weights, std::size_t d, ElementType type) {
  const auto [v, h] = model_dtype_error(type);
  const auto count = static_cast<double>(tokens.k.size());
  const double blocks = std::ceil(count / 128);
  double denominator = 0;
  double numerator = 0;
  double denominator_error = count * 0x1p-123 * weights.growth;
  double numerator_error = 129 * blocks * kUnderflow;
  for (std::size_t i = 0; i < tokens.k.size(); ++i) {
    const double y = weights.y[i];
    const double size = std::fabs(tokens.v[i][d]);
    denominator += y;
    numerator += y * tokens.v[i][d];
    denominator_error += ((1 + weights.r[i]) * (1 + roundings(8 + blocks)) - 1) * y;
    numerator_error +=
        size * (((1 + weights.r[i]) * (1 + v) * (1 + roundings(128 + blocks)) - 1) * y +
                2 * (0x1p-124 + h) * weights.growth);
  }
  const double x = numerator / denominator;
  const double error =
      (numerator_error + std::fabs(x) * denominator_error) / (denominator - denominator_error);
  const double rounding = (kUnit + v * (1 + kUnit)) * (std::fabs(x) + error) + h;
  return {x, kSlack * (error + rounding)};
}

struct Comparison {
  std::int64_t elements = 0;
  std::int64_t outside = 0;
  double largest_fraction = 0;  // of the bound
};

// `got` against binary64 on what `inputs` holds.
Comparison compare(const LayerCall& call, const Outputs& inputs, const Tensor& got) {
  Comparison result;
  const std::int64_t group = call.config.num_heads / call.config.num_kv_heads;
  RowTokens tokens;
  for (std::int64_t head = 0; head < call.config.num_tokens * call.config.num_heads; ++head) {
    const std::int64_t row = head / call.config.num_heads;
    const std::int64_t g = head % call.config.num_heads;
    if (g % group == 0) tokens = read_row(call, inputs, row, g / group);
    const Weights weights(read_query(call, inputs, row, g), tokens, call.config.sm_scale);
    for (std::int64_t d = 0; d < 128; ++d, ++result.elements) {
      const Bounded wanted = attend(tokens, weights, static_cast<std::size_t>(d), got.type());
      const auto value = static_cast<double>(test::value_at(got, head * 128 + d));
      const double fraction = std::fabs(value - wanted.exact) / wanted.bound;
      result.largest_fraction = std::max(result.largest_fraction, fraction);
      if (!(fraction <= 1)) ++result.outside;
    }
  }
  return result;
}

void fill_uniform(std::mt19937_64& random, double limit, Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    test::put(tensor, i, static_cast<float>((std::ldexp(random() >> 11, -52) - 1) * limit));
  }
}

class AttentionBound : public testing::TestWithParam<test::CallKind> {
 protected:
  AttentionBound() {
    test::CallShape shape;
    shape.config = test::plain_config(4, 2);
    shape.kind = GetParam();
    shape.positions = {0, 1, 15, 16, 17, 63, 127, 128, 129, 300, 2047, 2100};
    shape.pool_blocks = 19;
    call_ = test::decode_call(shape);
    inputs_ = test::zero_insertion(call_);
    std::mt19937_64 random(11);
    for (Tensor Outputs::*field : {&Outputs::q, &Outputs::index_q, &Outputs::k_cache,
                                   &Outputs::v_cache, &Outputs::kv_cache, &Outputs::index_cache}) {
      fill_uniform(random, 3, inputs_.*field);
    }
    for (Tensor* scales : {&call_.k_scale, &call_.v_scale}) {
      if (!scales->present()) continue;
      for (float& scale : scales->as<float>()) {
        scale = static_cast<float>(0.5 + std::ldexp(random() >> 11, -53));
      }
    }
  }

  LayerCall call_;
  Outputs inputs_;
};

TEST_P(AttentionBound, AttentionIsWithinTheBoundOfBinary64) {
  run_after_insertion(call_, inputs_, {.threads = 1, .keep_index_score = false});
  const Comparison whole = compare(call_, inputs_, inputs_.attn_output);
  EXPECT_EQ(whole.outside, 0) << "largest error " << whole.largest_fraction << " of its bound";
  EXPECT_EQ(whole.elements, inputs_.attn_output.size());
  RecordProperty("largest_fraction_of_bound", std::to_string(whole.largest_fraction));
}

// The bound tells a softmax of one token fewer apart.
TEST_P(AttentionBound, AForgottenTokenIsOutsideTheBound) {
  run_after_insertion(call_, inputs_, {.threads = 1, .keep_index_score = false});
  SparseBlockTable shorter{inputs_.sparse_block_table, inputs_.sparse_context_lens};
  for (std::int32_t& length : shorter.context_lens.as<std::int32_t>()) --length;
  const Tensor wrong = sparse_attention(call_, inputs_.q, test::k_pool(call_, inputs_),
                                        test::v_pool(call_, inputs_), shorter, 1);
  const Comparison comparison = compare(call_, inputs_, wrong);
  EXPECT_GT(comparison.outside, comparison.elements / 4);
}

// A score is the largest of up to 128 dots, each within Ed of its own.
TEST_P(AttentionBound, ScoresAreWithinTheBoundOfBinary64) {
  run_after_insertion(call_, inputs_, {.threads = 1, .keep_index_score = true});
  const std::int64_t columns = call_.block_table.dim(1);
  const std::int64_t rows = call_.config.num_tokens;
  for (std::int64_t i = 0; i < inputs_.index_score.size(); ++i) {
    const std::int64_t block = i % columns;
    const std::int64_t row = i / columns % rows;
    const std::int64_t head = i / columns / rows;
    const std::int64_t p = call_.positions.as<std::int64_t>()[static_cast<std::size_t>(row)];
    if (block > p / kBlockSize) continue;
    double largest = -HUGE_VAL;
    double bound = 0;
    for (std::int64_t j = block * 128; j <= std::min(p, block * 128 + 127); ++j) {
      double dot = 0;
      double magnitude = 0;
      for (std::int64_t d = 0; d < 128; ++d) {
        const auto q = static_cast<double>(
            test::value_at(inputs_.index_q, (row * call_.config.num_index_heads + head) * 128 + d));
        const auto k = static_cast<double>(
            test::value_at(inputs_.index_cache, test::slot_of(call_, row, j) * 128 + d));
        dot += q * k;
        magnitude += std::fabs(q * k);
      }
      largest = std::max(largest, dot);
      bound = std::max(bound, roundings(128) * magnitude + 128 * kUnderflow);
    }
    const auto got =
        static_cast<double>(inputs_.index_score.as<float>()[static_cast<std::size_t>(i)]);
    EXPECT_LE(std::fabs(got - largest), kSlack * bound) << "row " << row << " block " << block;
  }
}

INSTANTIATE_TEST_SUITE_P(, AttentionBound, testing::ValuesIn(test::kCallKinds),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace zerodiff::reference
