#include "compare/attention_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

constexpr double kUnit = 0x1p-24;
constexpr double kSlack = 1 + 0x1p-11;
constexpr double kFlushed = 0x1p-100;
constexpr double kLog2E = 1.4426950408889634;
constexpr double kLn2 = 0.6931471805599453;
// Beyond this a binary32 sum of another order may overflow.
constexpr double kOverflow = std::numeric_limits<float>::max() / 8;

double blocks_of(std::int64_t length) {
  return static_cast<double>((length + kBlockSize - 1) / kBlockSize);
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
  const int least = bfloat ? -126 : -14;
  if (!std::isfinite(size)) return size;
  const int exponent = size > 0 ? std::max(least, std::ilogb(size)) : least;
  return std::ldexp(1.0, exponent - (bfloat ? 8 : 11));
}

AttentionBound::AttentionBound(const LayerCall& call, const Tensor& k_pool, const Tensor& v_pool,
                               const AccumulateRules& rules)
    : model_dtype_(call.model_dtype()),
      rules_(rules),
      k_pages_(call, k_pool, false),
      v_pages_(call, v_pool, true),
      vector_width_(call.cache_vector_width()),
      group_(call.config.num_heads / call.config.num_kv_heads),
      log2_scale_(static_cast<double>(call.config.sm_scale) * kLog2E),
      p_(weight_rounding(rules.p_dtype, call.model_dtype())),
      page_(static_cast<std::size_t>(reference::kPagePlane)),
      block_(kBlockSize, kHeadDim),
      queries_(kHeadDim, group_),
      sizes_(kHeadDim, group_),
      score_overflow_(static_cast<std::size_t>(group_)) {
  row_.exact.resize(kHeadDim, group_);
  row_.bound.resize(kHeadDim, group_);
  row_.may_overflow.resize(kHeadDim, group_);
  row_.sums.resize(group_);
  sum_error_.resize(group_);
}

void AttentionBound::read_block(const reference::CachePages& pages, bool is_value,
                                std::span<const std::int32_t> folded_ids, std::int64_t live) {
  block_.resize(live, kHeadDim);
  const std::int64_t x = vector_width_;
  for (std::int64_t first = 0; first < live; first += kPageSize) {
    pages.read(folded_ids[static_cast<std::size_t>(first / kPageSize)],
               std::span<float, reference::kPagePlane>(page_));
    const std::int64_t count = std::min(kPageSize, live - first);
    for (std::int64_t token = 0; token < count; ++token) {
      float* const out = block_.row(first + token).data();
      const float* const page = page_.data();
      if (is_value) {
        const float* const column = page + token / x * kHeadDim * x + token % x;
        for (std::int64_t d = 0; d < kHeadDim; ++d) out[d] = column[d * x];
      } else {
        for (std::int64_t d = 0; d < kHeadDim; d += x) {
          std::copy_n(page + d * kPageSize + token * x, x, out + d);
        }
      }
    }
  }
}

void AttentionBound::load_queries(std::span<const std::uint16_t> q) {
  for (std::int64_t head = 0; head < group_; ++head) {
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      const float value = reference::from_model_dtype(
          model_dtype_, q[static_cast<std::size_t>(head * kHeadDim + d)]);
      queries_(d, head) = static_cast<double>(value);
      sizes_(d, head) = std::fabs(value);
    }
  }
}

void AttentionBound::score(std::span<const std::int32_t> folded_ids, std::int64_t length) {
  for (std::int64_t first = 0; first < length; first += kBlockSize) {
    const std::int64_t live = std::min(kBlockSize, length - first);
    read_block(k_pages_, false, folded_ids.subspan(static_cast<std::size_t>(first / kPageSize)),
               live);
    row_.weights.middleRows(first, live).noalias() = block_.cast<double>() * queries_;
    reach_.middleRows(first, live).noalias() = block_.cwiseAbs() * sizes_;
  }
}

// Dots and sums of sizes -> y, L, EL and the terms of EO, in place.
void AttentionBound::weigh(std::int64_t head, std::int64_t length) {
  auto s = row_.weights.col(head).head(length).array();
  auto reach = reach_.col(head).head(length).array();
  const Accumulator accumulator = rules_.for_query_key();
  const double dot_share = accumulated_roundings(accumulator, 128) / 2 * kSlack;
  score_overflow_[static_cast<std::size_t>(head)] =
      static_cast<double>(reach.maxCoeff<Eigen::PropagateNumbers>()) * std::max(1.0, log2_scale_) >
      kOverflow;
  s *= log2_scale_;
  const double largest = s.maxCoeff<Eigen::PropagateNumbers>();
  const double size = s.abs().maxCoeff<Eigen::PropagateNumbers>();
  const double shared =
      10 * kUnit * (size + std::log2(static_cast<double>(length))) + 0x1p-140 * log2_scale_;
  const double flat = exponential_error(length);
  const double half_terms = accumulated_roundings(rules_.for_values(), terms_of(length)) / 2;

  // z = ln2 h, r = e^z (1 + flat) - 1.
  Eigen::ArrayXd z = kLn2 * (log2_scale_ * dot_share * reach.cast<double>() +
                             (dot_share + 4 * kUnit) * s.abs() + 3 * kUnit * (largest - s) + shared);
  const bool small = z.maxCoeff<Eigen::PropagateNumbers>() <= 1;
  if (small) {
    z = z * (1 + z);  // >= e^z - 1 for z <= 1
  } else {
    z = z.exp() - 1 + 0x1p-50;
  }
  z = z * (1 + flat) + flat;
  // A clamp inside exp may swallow a NaN: 0 * s brings it back.
  s = ((s - largest) * kLn2).exp() + 0 * s;
  row_.sums(head) = s.sum();
  sum_error_(head) = (s * z).sum() + 2 * half_terms * row_.sums(head);
  reach = (s * (z + half_terms) + (p_.unit * s).max(p_.half_step) * (1 + z) + kFlushed)
              .cast<float>();
}

void AttentionBound::add_values(std::span<const std::int32_t> folded_ids, std::int64_t length) {
  row_.exact.setZero();
  errors_.setZero(kHeadDim, group_);
  largest_v_.setZero(kHeadDim);
  for (std::int64_t first = 0; first < length; first += kBlockSize) {
    const std::int64_t live = std::min(kBlockSize, length - first);
    read_block(v_pages_, true, folded_ids.subspan(static_cast<std::size_t>(first / kPageSize)),
               live);
    row_.exact.noalias() +=
        block_.cast<double>().transpose() * row_.weights.middleRows(first, live);
    block_ = block_.cwiseAbs();
    errors_.noalias() += block_.transpose() * reach_.middleRows(first, live);
    largest_v_ = largest_v_.cwiseMax(block_.colwise().maxCoeff().transpose());
  }
}

void AttentionBound::finish(std::int64_t head, std::int64_t length) {
  const double sum = row_.sums(head);
  const double sum_error = sum_error_(head) * kSlack;
  const double half_terms = accumulated_roundings(rules_.for_values(), terms_of(length)) / 2;
  for (std::int64_t d = 0; d < kHeadDim; ++d) {
    const double x = row_.exact(d, head) / sum;
    const double size = std::fabs(x);
    const double numerator =
        static_cast<double>(errors_(d, head)) * kSlack + half_terms * size * sum;
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

const AttentionBound::Block& AttentionBound::values(std::span<const std::int32_t> folded_ids,
                                                    std::int64_t length, std::int64_t n) {
  read_block(v_pages_, true,
             folded_ids.subspan(static_cast<std::size_t>(n * kPagesPerBlock)),
             std::min(kBlockSize, length - n * kBlockSize));
  return block_;
}

}  // namespace zerodiff::compare
