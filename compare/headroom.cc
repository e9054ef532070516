#include "compare/headroom.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace zerodiff::compare {
namespace {

constexpr std::array kHistogramEnds{0.0, 0x1p-10, 0.01, 0.02, 0.05, 0.1,
                                    0.2, 0.5,     1.0,  2.0,  10.0, HUGE_VAL};

bool worse(const BoundedElement& a, const BoundedElement& b) {
  return a.headroom != b.headroom ? a.headroom > b.headroom : a.flat_index < b.flat_index;
}

}  // namespace

std::size_t HeadroomCollector::bin_of(double headroom) {
  if (headroom <= 0) return 0;
  // The exponent and the first six bits of the significand: 64 bins an octave of equal width.
  constexpr int kSignificandBits = 52 - 6;
  const auto bits = std::bit_cast<std::uint64_t>(headroom) - 1;  // an upper end is inside
  const auto bin = static_cast<std::int64_t>(bits >> kSignificandBits) -
                   std::int64_t{1023 + kLowestOctave} * kBinsPerOctave + 1;
  return static_cast<std::size_t>(
      std::clamp<std::int64_t>(bin, 1, static_cast<std::int64_t>(kBins) - 1));
}

double HeadroomCollector::upper_of(std::size_t bin) {
  if (bin == 0) return 0;
  const auto octave = static_cast<int>(bin) / kBinsPerOctave;
  const auto part = static_cast<double>(bin % kBinsPerOctave) / kBinsPerOctave;
  return std::ldexp(1 + part, octave + kLowestOctave);
}

void HeadroomCollector::add(std::int64_t flat_index, double got, double exact, double bound,
                            double headroom) {
  ++elements_;
  ++bins_[bin_of(headroom)];
  const double error = std::fabs(got - exact);
  max_abs_error_ = error > max_abs_error_ ? error : max_abs_error_;  // passes over NaN
  const bool outside = !(headroom <= 1);
  const bool worst = !worst_ || headroom > worst_->headroom ||
                     (headroom == worst_->headroom && flat_index < worst_->flat_index);
  if (!outside && !worst) return;
  BoundedElement element{flat_index, {}, got, exact, bound, headroom};
  if (worst) worst_ = element;
  if (!outside) return;
  ++outside_;
  keep_outside(std::move(element));
}

void HeadroomCollector::keep_outside(BoundedElement element) {
  const auto by_index = [](const BoundedElement& a, const BoundedElement& b) {
    return a.flat_index < b.flat_index;
  };
  if (first_outside_.size() == kept_ && (kept_ == 0 || !by_index(element, first_outside_.back()))) {
    return;
  }
  const auto place =
      std::upper_bound(first_outside_.begin(), first_outside_.end(), element, by_index);
  first_outside_.insert(place, std::move(element));
  if (first_outside_.size() > kept_) first_outside_.pop_back();
}

void HeadroomCollector::merge(const HeadroomCollector& other) {
  elements_ += other.elements_;
  outside_ += other.outside_;
  unbounded_ += other.unbounded_;
  max_abs_error_ = std::max(max_abs_error_, other.max_abs_error_);
  for (std::size_t i = 0; i < kBins; ++i) bins_[i] += other.bins_[i];
  if (other.worst_ && (!worst_ || worse(*other.worst_, *worst_))) worst_ = other.worst_;
  for (const BoundedElement& element : other.first_outside_) keep_outside(element);
}

double HeadroomCollector::quantile(double share) const {
  const auto wanted = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(elements_)));
  std::int64_t seen = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    seen += bins_[bin];
    if (seen >= wanted) return upper_of(bin);
  }
  return std::numeric_limits<double>::infinity();
}

Headroom HeadroomCollector::result() const {
  Headroom result;
  result.elements = elements_ + unbounded_;
  result.outside = outside_;
  result.unbounded = unbounded_;
  result.worst = worst_;
  result.first_outside = first_outside_;
  for (const double upper : kHistogramEnds) result.histogram.push_back({upper, 0});
  if (elements_ == 0) return result;
  result.max = worst_->headroom;
  result.max_abs_error = max_abs_error_;
  result.median = quantile(0.5);
  result.p90 = quantile(0.9);
  result.p99 = quantile(0.99);
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    // A bin that straddles an end counts where its middle is; none straddles 1.
    const double middle = bin == 0 ? 0 : (upper_of(bin - 1) + upper_of(bin)) / 2;
    const auto end = std::lower_bound(kHistogramEnds.begin(), kHistogramEnds.end(), middle);
    result.histogram[static_cast<std::size_t>(end - kHistogramEnds.begin())].elements += bins_[bin];
  }
  return result;
}

}  // namespace zerodiff::compare
