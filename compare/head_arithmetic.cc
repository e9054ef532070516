#include "compare/head_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kUnit = 0x1p-24F;  // one rounding to binary32

// What rounding y to the model dtype adds to the distance of two y: twice half a step, relative
// to y and, among float16's subnormals, absolute.
struct ModelRounding {
  float relative;
  float absolute;
  float overflow;  // from about where y may round to infinity
};
ModelRounding rounding_of(ElementType model_dtype) {
  if (model_dtype == ElementType::bfloat16) return {0x1p-7F, 0x1p-130F, 0x1p127F};
  return {0x1p-10F, 0x1p-24F, 0x1p15F};
}

// A NaN code may stand for overflow to either side.
bool settled_bits(const ElementOrder& order, std::uint16_t low, std::uint16_t high) {
  return low == high && !order.is_nan(low);
}

}  // namespace

HeadArithmetic::HeadArithmetic(const LayerCall& call, const InsertionHeads& heads,
                               const reference::Choices& choices, const FactorFreedom& freedom)
    : call_(&call),
      heads_(&heads),
      choices_(choices),
      freedom_(freedom),
      storage_(call, heads, choices),
      order_(element_order(heads.type())),
      rope_table_(call),
      one_plus_weight_(reference::one_plus(heads.weight())) {}

void HeadArithmetic::load(std::int64_t i) {
  reference::from_model_dtype(call_->model_dtype(), heads_->input(i), x_);
  scale_ = heads_->scale(i);
  if (heads_->tensor() == HeadTensor::v || token_ == heads_->token(i)) return;
  token_ = heads_->token(i);
  const auto positions = call_->positions.as<std::int64_t>();
  rope_ = rope_table_.row(positions[static_cast<std::size_t>(token_)]);
}

std::optional<std::int32_t> HeadArithmetic::explain(std::int64_t i, const HeadBits& got) {
  load(i);
  const bool value = heads_->tensor() == HeadTensor::v;
  if (value && !is_fp8(heads_->type())) {  // a copy, NaN payloads included
    return std::ranges::equal(got, heads_->input(i)) ? std::optional(0) : std::nullopt;
  }
  Values z = x_;
  if (!value) {
    factor_ = contract_factor(x_, call_->config.rms_norm_eps);
    rotate(factor_.r, z);
  }
  storage_.store(z, scale_, bits_);
  if (same(bits_, got)) return 0;
  if (value) return std::nullopt;
  widen(factor_, x_, call_->config.rms_norm_eps, freedom_);
  return search(got);
}

void HeadArithmetic::rotate(float r, Values& z) const {
  z = x_;
  reference::apply_norm(z, r, one_plus_weight_);
  if (choices_.norm_materialised) {
    reference::round_to_model_dtype(call_->model_dtype(), std::span<float>(z));
  }
  reference::apply_rope(z, rope_, choices_.rope_contraction);
}

std::optional<std::int32_t> HeadArithmetic::search(const HeadBits& got) {
  const std::int32_t furthest = std::max(factor_.below, factor_.above);
  if (furthest == 0 || !find_sensitive(got)) return std::nullopt;
  for (std::int32_t distance = 1; distance <= furthest; ++distance) {
    if (distance <= factor_.above && explained_by(factor_.moved(distance), got)) return distance;
    if (distance <= factor_.below && explained_by(factor_.moved(-distance), got)) return -distance;
  }
  return std::nullopt;
}

// Whatever r is taken, z stays within error_of_z of the contract's. A dim whose bits are the same
// at both ends is settled: it has them under every r, as storage is monotone. If a path holds other
// bits there, no r explains the head; the dims that are not settled have to be tried.
bool HeadArithmetic::find_sensitive(const HeadBits& got) {
  const auto ulps = static_cast<float>(std::max(factor_.below, factor_.above));
  relative_error_ = ulps * 0x1p-23F * (1 + 0x1p-10F) + 6 * kUnit;
  if (choices_.norm_materialised) {
    relative_error_ += rounding_of(call_->model_dtype()).relative * (1 + 0x1p-6F);
  }
  // Mostly one dim that differs is enough to see that a head is hopeless.
  for (std::size_t d = 0; d < got.size(); ++d) {
    if (!same(bits_[d], got[d]) && is_settled(d)) return false;
  }
  Values low;
  rotate(factor_.r, low);
  Values high = low;
  for (std::size_t d = 0; d < low.size(); ++d) {
    const float error = error_of_z(d);
    low[d] -= error;
    high[d] += error;
  }
  std::array<bool, kHeadDim> finite;
  for (std::size_t d = 0; d < low.size(); ++d) finite[d] = std::isfinite(low[d] + high[d]);
  HeadBits low_bits;
  HeadBits high_bits;
  storage_.store(low, scale_, low_bits);
  storage_.store(high, scale_, high_bits);
  sensitive_.clear();
  for (std::size_t d = 0; d < low.size(); ++d) {
    if (!settled_bits(order_, low_bits[d], high_bits[d]) || !finite[d]) sensitive_.push_back(d);
  }
  return true;
}

bool HeadArithmetic::is_settled(std::size_t dim) const {
  const float z = rotated(dim, factor_.r);
  const float error = error_of_z(dim);
  std::array<float, 2> ends{z - error, z + error};
  if (!std::isfinite(ends[0] + ends[1])) return false;
  std::array<std::uint16_t, 2> bits{};
  storage_.store(ends, scale_, bits);
  return settled_bits(order_, bits[0], bits[1]);
}

// |z(r') - z(r)| for every r' that factor_ allows, rounded up. r' differs from r by a relative
// 2^-23 at most for each ulp. y = RN(RN(x r) w) then differs by that and four roundings more, or
// by a few of the smallest subnormals; z by |c| and |s| times as much and its own roundings.
float HeadArithmetic::error_of_z(std::size_t dim) const {
  constexpr float kForTheRoundingsInHere = 1 + 0x1p-20F;
  constexpr float kForRoundedY = 1 + 0x1p-6F;  // to the model dtype, if it is
  const auto half = static_cast<std::size_t>(rope_.half);
  if (dim >= 2 * half) return error_of_y(dim) * kForTheRoundingsInHere;
  const std::size_t low = dim % half;
  const std::size_t partner = dim < half ? dim + half : low;
  const float c = std::fabs(rope_.cos[low]);
  const float s = std::fabs(rope_.sin[low]);
  const float terms = (c * std::fabs((x_[dim] * factor_.r) * one_plus_weight_[dim]) +
                       s * std::fabs((x_[partner] * factor_.r) * one_plus_weight_[partner])) *
                      kForRoundedY;
  const float error =
      c * error_of_y(dim) + s * error_of_y(partner) + terms * (6 * kUnit) + 0x1p-140F;
  return error * kForTheRoundingsInHere;
}

float HeadArithmetic::error_of_y(std::size_t dim) const {
  const float magnitude = std::fabs((x_[dim] * factor_.r) * one_plus_weight_[dim]);
  const float subnormal = (std::fabs(one_plus_weight_[dim]) + 1) * 0x1p-147F;
  const ModelRounding rounding = rounding_of(call_->model_dtype());
  const bool materialised = choices_.norm_materialised;
  const float bound =
      magnitude * relative_error_ + (materialised ? rounding.absolute : 0) + subnormal;
  return magnitude < (materialised ? rounding.overflow : 0x1p126F) ? bound : kInfinity;
}

// The sensitive dim that rules out one r often rules out the next, so it moves to the front.
bool HeadArithmetic::explained_by(float r, const HeadBits& got) {
  for (std::size_t i = 0; i < sensitive_.size(); ++i) {
    const std::size_t dim = sensitive_[i];
    float z = rotated(dim, r);
    std::uint16_t bits = 0;
    storage_.store({&z, 1}, scale_, {&bits, 1});
    if (same(bits, got[dim])) continue;
    std::swap(sensitive_[i], sensitive_.front());
    return false;
  }
  return true;
}

float HeadArithmetic::normalised(std::size_t dim, float r) const {
  const float y = (x_[dim] * r) * one_plus_weight_[dim];
  return choices_.norm_materialised ? reference::round_to_model_dtype(call_->model_dtype(), y) : y;
}

float HeadArithmetic::rotated(std::size_t dim, float r) const {
  const auto half = static_cast<std::size_t>(rope_.half);
  if (dim >= 2 * half) return normalised(dim, r);
  const std::size_t low = dim % half;
  const reference::RotatedPair pair =
      reference::rotate_pair(normalised(low, r), normalised(low + half, r), rope_.cos[low],
                             rope_.sin[low], choices_.rope_contraction);
  return dim < half ? pair.low : pair.high;
}

bool HeadArithmetic::same(const HeadBits& bits, const HeadBits& got) const {
  if (bits == got) return true;
  for (std::size_t d = 0; d < bits.size(); ++d) {
    if (!same(bits[d], got[d])) return false;
  }
  return true;
}

bool HeadArithmetic::same(std::uint16_t bits, std::uint16_t got) const {
  return bits == got || (order_.is_nan(bits) && order_.is_nan(got));
}

}  // namespace zerodiff::compare
