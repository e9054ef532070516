#include "compare/attention_bound.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

constexpr double kUnit = 0x1p-24;
constexpr double kSlack = 1 + 0x1p-11;
constexpr double kFlushed = 0x1p-100;
constexpr std::uint64_t kSignificand = (std::uint64_t{1} << 52) - 1;
constexpr double kLog2E = 1.4426950408889634;
constexpr double kLn2 = 0.6931471805599453;
// Beyond this a binary32 sum of another order may overflow.
constexpr double kOverflow = std::numeric_limits<float>::max() / 8;

double blocks_of(std::int64_t length) {
  const std::int64_t blocks = (length + kBlockSize - 1) / kBlockSize;
  return static_cast<double>(blocks);
}

double terms_of(std::int64_t length) {
  return static_cast<double>(length) + 9 * blocks_of(length);
}

// (1 + 2^-22)^(1 + 9 N) - 1, from above.
double exponential_error(std::int64_t length) {
  const double error = (1 + 9 * blocks_of(length)) * 0x1p-22;
  return error * (1 + error);
}

}  // namespace

WeightRounding weight_rounding(PDtype p_dtype, ElementType model_dtype) {
  if (p_dtype == PDtype::fp32) return {0x1p-24, 0x1p-150};
  // Range scaling puts the largest weight at 2^7 or above, the smallest e4m3 step being 2^-9.
  if (p_dtype == PDtype::fp8) return {0x1p-4, 0x1p-17};
  return model_dtype == ElementType::bfloat16 ? WeightRounding{0x1p-8, 0x1p-134}
                                              : WeightRounding{0x1p-11, 0x1p-25};
}

double half_step_at(ElementType model_dtype, double size) {
  const bool bfloat = model_dtype == ElementType::bfloat16;
  if (!std::isfinite(size)) return size;
  // 2^exponent: the size without its significand.
  const auto power = std::bit_cast<double>(std::bit_cast<std::uint64_t>(size) & ~kSignificand);
  return std::max(power, bfloat ? 0x1p-126 : 0x1p-14) * (bfloat ? 0x1p-8 : 0x1p-11);
}

AttentionBound::AttentionBound(const LayerCall& call, const Tensor& k_pool, const Tensor& v_pool,
                               const AccumulateRules& rules, const AttentionChange& change)
    : model_dtype_(call.model_dtype()),
      rules_(rules),
      change_(change),
      blocks_(call, k_pool, v_pool),
      group_(call.config.num_heads / call.config.num_kv_heads),
      log2_scale_(static_cast<double>(call.config.sm_scale) * kLog2E * change.scale_factor),
      p_(change.weights.value_or(weight_rounding(rules.p_dtype, call.model_dtype()))),
      queries_(kHeadDim, group_),
      q_norms_(kHeadDim / blocks_.vector_width(), group_),
      score_overflow_(static_cast<std::size_t>(group_)) {
  row_.exact.resize(kHeadDim, group_);
  row_.bound.resize(kHeadDim, group_);
  row_.may_overflow.resize(kHeadDim, group_);
  row_.sums.resize(group_);
  row_.largest.resize(group_);
  sum_error_.resize(group_);
}

void AttentionBound::load_queries(std::span<const std::uint16_t> q) {
  for (std::int64_t head = 0; head < group_; ++head) {
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      queries_(d, head) = static_cast<double>(reference::from_model_dtype(
          model_dtype_, q[static_cast<std::size_t>(head * kHeadDim + d)]));
    }
  }
  const std::int64_t x = blocks_.vector_width();
  for (std::int64_t part = 0; part < q_norms_.rows(); ++part) {
    q_norms_.row(part) = queries_.middleRows(part * x, x).colwise().norm().cast<float>();
  }
}

void AttentionBound::score(std::span<const std::int32_t> folded_ids, std::int64_t length) {
  for (std::int64_t first = 0; first < length; first += kBlockSize) {
    const std::int64_t live = std::min(kBlockSize, length - first);
    const BlockOfKeys& keys =
        blocks_.keys(folded_ids.subspan(static_cast<std::size_t>(first / kPageSize)), live);
    row_.weights.middleRows(first, live).setZero();
    keys.values.add_product(queries_.data(), kHeadDim, group_, row_.weights.data() + first,
                            row_.weights.rows(), packed_doubles_);
    reach_.middleRows(first, live).noalias() = keys.norms * q_norms_;
  }
}

// Dots and bounds of A -> y, L, EL and the terms of EO, in place. Plain loops where an expression
// mixes binary32 and binary64: Eigen does not vectorise those.
void AttentionBound::weigh(std::int64_t head, std::int64_t length) {
  auto s = row_.weights.col(head).head(length).array();
  float* const reach = reach_.col(head).data();
  score_overflow_[static_cast<std::size_t>(head)] =
      static_cast<double>(reach_.col(head).head(length).maxCoeff()) * std::max(1.0, log2_scale_) >
      kOverflow;
  s *= log2_scale_;
  const double largest = s.maxCoeff();
  const double half_terms = accumulated_roundings(rules_.for_values(), terms_of(length)) / 2;
  relative_errors(s.data(), reach, largest, length);
  s = ((s - largest) * kLn2).exp() + 0 * s;  // exp clamps, which may swallow a NaN
  const auto r = errors_of_weights_.head(length).array();
  row_.largest(head) = largest;
  row_.sums(head) = s.sum() + change_.dead_tokens * std::exp2(-largest);
  sum_error_(head) = (s * r).sum() + 2 * half_terms * row_.sums(head);
  for (std::int64_t i = 0; i < length; ++i) {
    const double y = s.data()[i];
    const double rounding = std::max(p_.unit * y, p_.half_step) * (1 + r.data()[i]);
    reach[i] = static_cast<float>(y * (r.data()[i] + half_terms) + rounding + kFlushed);
  }
}

// r of every token.
void AttentionBound::relative_errors(const double* scores, const float* reach, double largest,
                                     std::int64_t length) {
  const Eigen::Map<const Eigen::ArrayXd> s(scores, length);
  const double dot_share = accumulated_roundings(rules_.for_query_key(), 128) / 2 * kSlack;
  const double shared = 10 * kUnit * (s.abs().maxCoeff() + std::log2(static_cast<double>(length))) +
                        0x1p-140 * log2_scale_;
  errors_of_weights_.resize(std::max(errors_of_weights_.size(), length));
  auto z = errors_of_weights_.head(length).array();
  double* const out = z.data();
  for (std::int64_t i = 0; i < length; ++i) {
    const double size = std::fabs(scores[i]);
    out[i] = kLn2 * (log2_scale_ * dot_share * static_cast<double>(reach[i]) +
                     (dot_share + 4 * kUnit) * size + 3 * kUnit * (largest - scores[i]) + shared);
  }
  if (z.maxCoeff() <= 1) {
    z = z * (1 + z);  // >= e^z - 1 for z <= 1
  } else {
    z = z.exp() - 1 + 0x1p-50;
  }
  const double flat = exponential_error(length);
  z = z * (1 + flat) + flat;
}

void AttentionBound::add_values(std::span<const std::int32_t> folded_ids, std::int64_t length) {
  row_.exact.setZero();
  errors_.setZero(kHeadDim, group_);
  largest_v_.setZero(kHeadDim);
  for (std::int64_t first = 0; first < length; first += kBlockSize) {
    const std::int64_t live = std::min(kBlockSize, length - first);
    const BlockOfValues& block =
        blocks_.values(folded_ids.subspan(static_cast<std::size_t>(first / kPageSize)), live);
    block.transposed.add_product(row_.weights.data() + first, row_.weights.rows(), group_,
                                 row_.exact.data(), kHeadDim, packed_doubles_);
    block.sizes.add_product(reach_.data() + first, reach_.rows(), group_, errors_.data(), kHeadDim,
                            packed_floats_);
    largest_v_ = largest_v_.cwiseMax(block.largest);
  }
}

void AttentionBound::finish(std::int64_t head, std::int64_t length) {
  const double sum = row_.sums(head);
  const double sum_error = sum_error_(head) * kSlack;
  const double half_terms = accumulated_roundings(rules_.for_values(), terms_of(length)) / 2;
  for (std::int64_t d = 0; d < kHeadDim; ++d) {
    const double x = row_.exact(d, head) / sum * change_.output_factor;
    const double size = std::fabs(x);
    const double numerator =
        static_cast<double>(errors_(d, head)) * kSlack * change_.output_factor +
        half_terms * size * sum;
    const double error = sum_error < sum
                             ? (numerator + size * sum_error) / (sum - sum_error) + 8 * kUnit * size
                             : std::numeric_limits<double>::infinity();
    row_.exact(d, head) = x;
    row_.bound(d, head) = error + half_step_at(model_dtype_, size + error);
    row_.may_overflow(d, head) = score_overflow_[static_cast<std::size_t>(head)] ||
                                 static_cast<double>(largest_v_(d)) * sum > kOverflow;
  }
}

const RowBound& AttentionBound::evaluate(std::span<const std::int32_t> folded_ids,
                                         std::int64_t length, std::span<const std::uint16_t> q) {
  if (row_.weights.rows() < length) {
    row_.weights.resize(length, group_);
    reach_.resize(length, group_);
  }
  row_.tokens = length;
  load_queries(q);
  score(folded_ids, length);
  for (std::int64_t head = 0; head < group_; ++head) weigh(head, length);
  add_values(folded_ids, length);
  for (std::int64_t head = 0; head < group_; ++head) finish(head, length);
  return row_;
}

const BlockValues& AttentionBound::values(std::span<const std::int32_t> folded_ids,
                                          std::int64_t length, std::int64_t n) {
  return blocks_.plain_values(folded_ids.subspan(static_cast<std::size_t>(n * kPagesPerBlock)),
                              std::min(kBlockSize, length - n * kBlockSize));
}

}  // namespace zerodiff::compare
