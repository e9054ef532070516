#include "reference/qk_norm_rope.h"

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "reference/lane_sum.h"
#include "reference/number_formats.h"

namespace zerodiff::reference {
namespace {

using Head = Eigen::Array<float, kHeadDim, 1>;

float pairwise_sum(std::span<const float> v) {
  if (v.size() == 1) return v[0];
  const std::size_t half = v.size() / 2;
  return pairwise_sum(v.first(half)) + pairwise_sum(v.subspan(half));
}

template <RopeContraction contraction>
RotatedPair rotate(float a, float b, float c, float s) {
  switch (contraction) {
    case RopeContraction::fma_cos:
      return {std::fma(a, c, -(b * s)), std::fma(b, c, a * s)};
    case RopeContraction::separate:
      return {a * c - b * s, b * c + a * s};
    case RopeContraction::fma_sin:
      return {std::fma(-b, s, a * c), std::fma(a, s, b * c)};
  }
}

template <RopeContraction contraction>
void rotate_pairs(HeadSpan y, const RopeRow& rope) {
  const auto half = static_cast<std::size_t>(rope.half);
  float* __restrict const low = y.data();
  float* __restrict const high = y.data() + half;
  const float* __restrict const cos = rope.cos.data();
  const float* __restrict const sin = rope.sin.data();
  for (std::size_t i = 0; i < half; ++i) {
    const RotatedPair rotated = rotate<contraction>(low[i], high[i], cos[i], sin[i]);
    low[i] = rotated.low;
    high[i] = rotated.high;
  }
}

HeadSpan head_of(std::span<float> heads, std::size_t h) {
  return HeadSpan(heads.data() + h * kHeadDim, static_cast<std::size_t>(kHeadDim));
}

float move_by_ulp(float value, int steps) {
  if (steps == 0 || value == 0.0F || !std::isfinite(value)) return value;
  return std::bit_cast<float>(std::bit_cast<std::int32_t>(value) + steps);
}

}  // namespace

RopeTable::RopeTable(const LayerCall& call) : call_(&call) {}

std::int64_t RopeTable::table_row(std::int64_t position) const {
  if (!call_->cos_sin_rows.present()) return position;
  const auto rows = call_->cos_sin_rows.as<std::int64_t>();
  const auto found = std::lower_bound(rows.begin(), rows.end(), position);
  if (found == rows.end() || *found != position) return -1;
  return found - rows.begin();
}

RopeRow RopeTable::row(std::int64_t position) const {
  RopeRow result;
  result.half = call_->config.rotary_dim / 2;
  const auto half = static_cast<std::size_t>(result.half);
  const std::int64_t index = table_row(std::max<std::int64_t>(position, 0));
  if (index < 0) {
    assert(position < 0);
    result.cos.fill(1.0F);
    result.sin.fill(0.0F);
    return result;
  }
  const auto bits = call_->cos_sin_cache.as<std::uint16_t>().subspan(
      static_cast<std::size_t>(index) * 2 * half, 2 * half);
  const ElementType type = call_->cos_sin_cache.type();
  from_model_dtype(type, bits.first(half), std::span(result.cos).first(half));
  from_model_dtype(type, bits.subspan(half), std::span(result.sin).first(half));
  return result;
}

float sum_of_squares(ConstHeadSpan x, SumsqOrder order) {
  if (order == SumsqOrder::lane_sum128) return lane_sum128_of_squares(x);
  std::array<float, kHeadDim> squares;
  const Eigen::Map<const Head> mapped(x.data());
  Eigen::Map<Head>(squares.data()) = mapped * mapped;
  if (order == SumsqOrder::pairwise) return pairwise_sum(squares);
  float sum = squares[0];
  for (std::size_t i = 1; i < squares.size(); ++i) sum = sum + squares[i];
  return sum;
}

float reciprocal_rms(float ss, float eps, int rsqrt_ulp) {
  const float u = ss * 0x1p-7F + eps;
  return move_by_ulp(1.0F / std::sqrt(u), rsqrt_ulp);
}

void reciprocal_rms(std::span<float> ss, float eps, int rsqrt_ulp) {
  Eigen::Map<Eigen::ArrayXf> r(ss.data(), static_cast<Eigen::Index>(ss.size()));
  r = 1.0F / (r * 0x1p-7F + eps).sqrt();
  if (rsqrt_ulp == 0) return;
  for (float& value : ss) value = move_by_ulp(value, rsqrt_ulp);
}

void apply_norm(HeadSpan x, float r, ConstHeadSpan one_plus_weight) {
  Eigen::Map<Head> y(x.data());
  y = (y * r) * Eigen::Map<const Head>(one_plus_weight.data());
}

void apply_rope(HeadSpan y, const RopeRow& rope, RopeContraction contraction) {
  switch (contraction) {
    case RopeContraction::fma_cos:
      return rotate_pairs<RopeContraction::fma_cos>(y, rope);
    case RopeContraction::separate:
      return rotate_pairs<RopeContraction::separate>(y, rope);
    case RopeContraction::fma_sin:
      return rotate_pairs<RopeContraction::fma_sin>(y, rope);
  }
}

RotatedPair rotate_pair(float low, float high, float cos, float sin, RopeContraction contraction) {
  switch (contraction) {
    case RopeContraction::fma_cos:
      return rotate<RopeContraction::fma_cos>(low, high, cos, sin);
    case RopeContraction::separate:
      return rotate<RopeContraction::separate>(low, high, cos, sin);
    case RopeContraction::fma_sin:
      return rotate<RopeContraction::fma_sin>(low, high, cos, sin);
  }
  return {};
}

std::array<float, kHeadDim> one_plus(const Tensor& weight) {
  std::array<float, kHeadDim> result{};
  if (!weight.present()) return result;
  from_model_dtype(weight.type(), weight.as<std::uint16_t>(), result);
  Eigen::Map<Head> mapped(result.data());
  mapped = 1.0F + mapped;
  return result;
}

QkNormRope::QkNormRope(const LayerCall& call, const Choices& choices)
    : call_(&call),
      choices_(choices),
      rope_table_(call),
      one_plus_q_weight_(one_plus(call.q_norm_weight)),
      one_plus_k_weight_(one_plus(call.k_norm_weight)),
      one_plus_index_q_weight_(one_plus(call.index_q_norm_weight)),
      one_plus_index_k_weight_(one_plus(call.index_k_norm_weight)) {}

void QkNormRope::rotate_heads(std::span<const std::uint16_t> bits, const HeadArray& one_plus_weight,
                              const RopeRow& rope, std::vector<float>& out) const {
  const ElementType model_dtype = call_->model_dtype();
  out.resize(bits.size());
  from_model_dtype(model_dtype, bits, out);
  // The factors of a few heads at a time: their square roots and divisions share vectors.
  constexpr std::size_t kTogether = 16;
  std::array<float, kTogether> factors;
  const std::size_t heads = out.size() / kHeadDim;
  for (std::size_t first = 0; first < heads; first += kTogether) {
    const auto group = std::span(factors).first(std::min(kTogether, heads - first));
    for (std::size_t h = 0; h < group.size(); ++h) {
      group[h] = sum_of_squares(head_of(out, first + h), choices_.sumsq_order);
    }
    reciprocal_rms(group, call_->config.rms_norm_eps, choices_.rsqrt_ulp);
    for (std::size_t h = 0; h < group.size(); ++h) {
      finish_head(head_of(out, first + h), group[h], one_plus_weight, rope);
    }
  }
}

void QkNormRope::finish_head(HeadSpan head, float r, ConstHeadSpan one_plus_weight,
                             const RopeRow& rope) const {
  apply_norm(head, r, one_plus_weight);
  if (choices_.norm_materialised) {
    round_to_model_dtype(call_->model_dtype(), std::span<float>(head));
  }
  apply_rope(head, rope, choices_.rope_contraction);
}

RopeRow QkNormRope::rope_row(std::int64_t t) const {
  return rope_table_.row(call_->positions.as<std::int64_t>()[static_cast<std::size_t>(t)]);
}

std::span<const std::uint16_t> QkNormRope::packed_row(std::int64_t t) const {
  const auto row_elements = static_cast<std::size_t>(call_->config.row_elements());
  return call_->qkv.as<std::uint16_t>().subspan(static_cast<std::size_t>(t) * row_elements,
                                                row_elements);
}

std::span<const std::uint16_t> QkNormRope::q_bits(std::int64_t t) const {
  return packed_row(t).first(static_cast<std::size_t>(call_->config.num_heads * kHeadDim));
}

void QkNormRope::rotate_row(std::int64_t t, RotatedRow& out) const {
  rotate_q(t, out.q);
  rotate_row_without_q(t, out);
}

void QkNormRope::rotate_q(std::int64_t t, std::vector<float>& q) const {
  rotate_heads(q_bits(t), one_plus_q_weight_, rope_row(t), q);
}

void QkNormRope::rotate_row_without_q(std::int64_t t, RotatedRow& out) const {
  const LayerConfig& config = call_->config;
  const auto row = packed_row(t);
  const auto q_elements = static_cast<std::size_t>(config.num_heads * kHeadDim);
  const auto kv_elements = static_cast<std::size_t>(config.num_kv_heads * kHeadDim);
  const auto index_elements = static_cast<std::size_t>(config.num_index_heads * kHeadDim);
  const RopeRow rope = rope_row(t);

  rotate_heads(row.subspan(q_elements, kv_elements), one_plus_k_weight_, rope, out.k);
  out.v = row.subspan(q_elements + kv_elements, kv_elements);
  if (config.skip_index_branch) {
    out.index_q.clear();
    out.index_k.clear();
    return;
  }
  const std::size_t index_start = q_elements + 2 * kv_elements;
  rotate_heads(row.subspan(index_start, index_elements), one_plus_index_q_weight_, rope,
               out.index_q);
  rotate_heads(row.subspan(index_start + index_elements), one_plus_index_k_weight_, rope,
               out.index_k);
}

}  // namespace zerodiff::reference
