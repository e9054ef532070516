#include "tests/compare/softmax_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "reference/number_formats.h"
#include "tests/reference/attention_calls.h"

namespace zerodiff::compare {
namespace {

using Values = std::span<const float>;

float fp8(float value) {
  constexpr ElementType kFormat = ElementType::float8_e4m3fn;
  return reference::decode_fp8(kFormat, reference::encode_fp8(kFormat, value, Overflow::saturate));
}

double cut(double value, int exponent) {
  return std::ldexp(std::trunc(std::ldexp(value, -exponent)), exponent);
}

// Adds 16 terms to acc the way matrix instructions do.
float add_truncated(const float* terms_a, const float* terms_b, std::size_t count, float acc) {
  double largest = std::fabs(static_cast<double>(acc));
  for (std::size_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(terms_a[i]) * terms_b[i]));
  }
  if (largest == 0 || !std::isfinite(largest)) return acc;
  const int quantum = std::ilogb(largest) - 23;
  double sum = cut(acc, quantum);
  for (std::size_t i = 0; i < count; ++i) {
    sum += cut(static_cast<double>(terms_a[i]) * terms_b[i], quantum);
  }
  return sum == 0 ? 0 : static_cast<float>(cut(sum, std::ilogb(sum) - 23));
}

float tree(Values a, Values b) {
  if (a.size() == 1) return a[0] * b[0];
  const std::size_t half = a.size() / 2;
  return tree(a.first(half), b.first(half)) + tree(a.subspan(half), b.subspan(half));
}

// start + sum of a * b.
float sum_of(const SoftmaxKernel& kernel, Values a, Values b, float start) {
  if (kernel.order == SumOrder::pairwise) return start + tree(a, b);
  if (kernel.order == SumOrder::truncated) {
    for (std::size_t i = 0; i < a.size(); i += 16) {
      start =
          add_truncated(a.data() + i, b.data() + i, std::min<std::size_t>(16, a.size() - i), start);
    }
    return start;
  }
  const bool reversed = kernel.order == SumOrder::reversed;
  for (std::size_t j = 0; j < a.size(); ++j) {
    const std::size_t i = reversed ? a.size() - 1 - j : j;
    start = kernel.fused ? std::fma(a[i], b[i], start) : start + a[i] * b[i];
  }
  return start;
}

struct Split {
  float maximum = -std::numeric_limits<float>::infinity();
  float sum = 0;
  HeadValues out{};
};

class Softmax {
 public:
  Softmax(const SoftmaxKernel& kernel, ElementType model_dtype, float sm_scale)
      : kernel_(kernel), type_(model_dtype), scale_(sm_scale * kernel.scale_factor * 1.44269504F) {}

  Split split(const HeadValues& q, const RowTokens& tokens, std::size_t begin, std::size_t end);
  HeadValues merge(std::vector<Split> splits);

 private:
  float exp2(float x) {
    if (kernel_.natural) x = x * 0.693147182F * 1.44269504F;
    float value = std::exp2(x);
    if (x == 0) return value;
    sign_ = !sign_;
    for (int i = 0; i < kernel_.exp2_ulp; ++i) value = std::nextafter(value, sign_ ? 2.0F : 0.0F);
    return value;
  }
  float weight(float e) const {
    if (kernel_.p_dtype == PDtype::fp32) return e;
    if (kernel_.p_dtype == PDtype::fp8) return fp8(e * kernel_.p_range) / kernel_.p_range;
    return reference::round_to_model_dtype(type_, e);
  }
  void rescale(float maximum, Split& split);
  void add_tile(const std::vector<float>& scores, const RowTokens& tokens, std::size_t begin,
                Split& split);

  const SoftmaxKernel& kernel_;
  ElementType type_;
  float scale_;
  bool sign_ = false;
  bool forgot_ = false;
};

void Softmax::rescale(float maximum, Split& split) {
  if (maximum == split.maximum) return;
  const float old = split.maximum;
  split.maximum = maximum;
  if (!std::isfinite(old)) return;
  if (kernel_.forget_a_rescale && !forgot_) {
    forgot_ = true;
    return;
  }
  const float factor = exp2(kernel_.fused_scale ? (old - maximum) * scale_ : old - maximum);
  split.sum *= factor;
  for (float& value : split.out) value *= factor;
}

void Softmax::add_tile(const std::vector<float>& scores, const RowTokens& tokens, std::size_t begin,
                       Split& split) {
  rescale(std::max(split.maximum, *std::max_element(scores.begin(), scores.end())), split);
  std::vector<float> e;
  for (const float score : scores) {
    e.push_back(exp2(kernel_.fused_scale ? std::fma(score, scale_, -(split.maximum * scale_))
                                         : score - split.maximum));
  }
  split.sum = sum_of(kernel_, e, std::vector<float>(e.size(), 1), split.sum);
  for (float& value : e) value = weight(value);
  std::vector<float> column(e.size());
  for (std::size_t d = 0; d < 128; ++d) {
    for (std::size_t i = 0; i < e.size(); ++i) column[i] = tokens.v[begin + i][d];
    split.out[d] = sum_of(kernel_, e, column, split.out[d]);
  }
}

Split Softmax::split(const HeadValues& q, const RowTokens& tokens, std::size_t begin,
                     std::size_t end) {
  Split split;
  for (std::size_t tile = begin; tile < end; tile += kernel_.tile) {
    std::vector<float> scores;
    for (std::size_t i = tile; i < std::min(end, tile + kernel_.tile); ++i) {
      const float dot = sum_of(kernel_, q, tokens.k[i], 0);
      scores.push_back(kernel_.fused_scale ? dot : dot * scale_);
    }
    add_tile(scores, tokens, tile, split);
  }
  return split;
}

HeadValues Softmax::merge(std::vector<Split> splits) {
  const auto score = [&](const Split& split) {
    const float scaled = kernel_.fused_scale ? split.maximum * scale_ : split.maximum;
    return kernel_.log_sum_exp ? scaled * 0.693147182F + std::log(split.sum) : scaled;
  };
  float largest = -std::numeric_limits<float>::infinity();
  for (const Split& split : splits) largest = std::max(largest, score(split));
  float sum = 0;
  HeadValues out{};
  for (Split& split : splits) {
    const float x = score(split) - largest;
    float factor = kernel_.log_sum_exp ? exp2(x * 1.44269504F) : exp2(x);
    if (kernel_.forget_merge_weight) factor = 1;
    sum += kernel_.log_sum_exp ? factor : factor * split.sum;
    for (std::size_t d = 0; d < 128; ++d) {
      const float part = kernel_.log_sum_exp ? split.out[d] / split.sum : split.out[d];
      out[d] = std::fma(factor, part, out[d]);
    }
  }
  sum += static_cast<float>(kernel_.dead_in_sum) * exp2(-largest);
  for (float& value : out) value = kernel_.normalise_late ? value / sum : value * (1 / sum);
  return out;
}

float value_at(const Tensor& tensor, std::int64_t element) {
  return static_cast<float>(reference::value_of(tensor.type(), test::bits_at(tensor, element)));
}

float dequantised(const LayerCall& call, const Tensor& pool, std::int64_t element,
                  const Tensor& scales, std::int64_t scale) {
  const float value = value_at(pool, element);
  if (!is_fp8(pool.type())) return value;
  const auto values = scales.as<float>();
  return reference::round_to_model_dtype(
      call.model_dtype(), value * values[values.size() == 1 ? 0 : static_cast<std::size_t>(scale)]);
}

}  // namespace

HeadValues run(const SoftmaxKernel& kernel, const HeadValues& q, const RowTokens& tokens,
               float sm_scale, ElementType model_dtype) {
  Softmax softmax(kernel, model_dtype, sm_scale);
  std::vector<Split> splits;
  const std::size_t count = tokens.k.size();
  const std::size_t pages = (count + 15) / 16;
  const std::size_t width = (pages + kernel.splits - 1) / kernel.splits * 16;
  for (std::size_t begin = 0; begin < count; begin += width) {
    splits.push_back(softmax.split(q, tokens, begin, std::min(count, begin + width)));
  }
  return softmax.merge(std::move(splits));
}

RowTokens row_tokens(const LayerCall& call, const Outputs& inputs, std::int64_t row,
                     std::int64_t kv_head) {
  const std::int64_t table_row = row * call.config.num_kv_heads + kv_head;
  const auto live = static_cast<std::size_t>(
      inputs.sparse_context_lens.as<std::int32_t>()[static_cast<std::size_t>(table_row)]);
  RowTokens tokens{std::vector<HeadValues>(live), std::vector<HeadValues>(live)};
  for (std::size_t i = 0; i < live; ++i) {
    const std::int64_t slot =
        test::slot_in_table(call, inputs, row, kv_head, static_cast<std::int64_t>(i));
    const std::int64_t scale = kv_head * call.num_slots() + slot;
    for (std::size_t d = 0; d < 128; ++d) {
      const auto dim = static_cast<std::int64_t>(d);
      tokens.k[i][d] = dequantised(call, test::k_pool(call, inputs),
                                   test::k_element(call, slot, kv_head, dim), call.k_scale, scale);
      tokens.v[i][d] = dequantised(call, test::v_pool(call, inputs),
                                   test::v_element(call, slot, kv_head, dim), call.v_scale, scale);
    }
  }
  return tokens;
}

Tensor run(const SoftmaxKernel& kernel, const LayerCall& call, const Outputs& inputs,
           const ChangeTokens& change) {
  const LayerConfig& config = call.config;
  Tensor output = Tensor::zeros(call.model_dtype(), {config.num_tokens, config.num_heads, 128});
  const std::int64_t group = config.num_heads / config.num_kv_heads;
  for (std::int64_t table_row = 0; table_row < config.num_tokens * config.num_kv_heads;
       ++table_row) {
    const std::int64_t row = table_row / config.num_kv_heads;
    const std::int64_t kv_head = table_row % config.num_kv_heads;
    RowTokens tokens = row_tokens(call, inputs, row, kv_head);
    if (change) change(row, kv_head, tokens);
    if (tokens.k.empty()) continue;
    for (std::int64_t head = table_row * group; head < (table_row + 1) * group; ++head) {
      HeadValues q;
      for (std::size_t d = 0; d < 128; ++d) {
        q[d] = value_at(inputs.q, head * 128 + static_cast<std::int64_t>(d));
      }
      const HeadValues out = run(kernel, q, tokens, config.sm_scale, call.model_dtype());
      for (std::size_t d = 0; d < 128; ++d) {
        output.as<std::uint16_t>()[static_cast<std::size_t>(head) * 128 + d] =
            reference::to_model_dtype(call.model_dtype(), out[d]);
      }
    }
  }
  return output;
}

}  // namespace zerodiff::compare
