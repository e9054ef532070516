#include "compare/headroom.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace zerodiff::compare {
namespace {

constexpr std::array kHistogramEnds{0.0,  0x1p-10, 0.01, 0.02, 0.05, 0.1,
                                    0.2, 0.5,     1.0,  2.0,  10.0, HUGE_VAL};

bool worse(const BoundedElement& a, const BoundedElement& b) {
  return a.headroom != b.headroom ? a.headroom > b.headroom : a.flat_index < b.flat_index;
}

}  // namespace

std::size_t HeadroomCollector::bin_of(double headroom) {
  if (headroom <= 0) return 0;
  const double octaves = std::log2(headroom) - kLowestOctave;
  const double bin = std::ceil(octaves * kBinsPerOctave);
  return static_cast<std::size_t>(std::clamp(bin, 1.0, static_cast<double>(kBins - 1)));
}

double HeadroomCollector::upper_of(std::size_t bin) {
  if (bin == 0) return 0;
  return std::exp2(static_cast<double>(bin) / kBinsPerOctave + kLowestOctave);
}

void HeadroomCollector::add(const BoundedElement& element) {
  ++elements_;
  ++bins_[bin_of(element.headroom)];
  if (!worst_ || worse(element, *worst_)) worst_ = element;
  if (!element.outside()) return;
  ++outside_;
  keep_outside(element);
}

void HeadroomCollector::keep_outside(const BoundedElement& element) {
  const auto by_index = [](const BoundedElement& a, const BoundedElement& b) {
    return a.flat_index < b.flat_index;
  };
  first_outside_.insert(
      std::upper_bound(first_outside_.begin(), first_outside_.end(), element, by_index), element);
  if (first_outside_.size() > kept_) first_outside_.pop_back();
}

void HeadroomCollector::merge(const HeadroomCollector& other) {
  elements_ += other.elements_;
  outside_ += other.outside_;
  unbounded_ += other.unbounded_;
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
  result.median = quantile(0.5);
  result.p90 = quantile(0.9);
  result.p99 = quantile(0.99);
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    // A bin that straddles an end counts below it, so that what is outside stays outside.
    const double middle = bin == 0 ? 0 : upper_of(bin) * std::exp2(-0.5 / kBinsPerOctave);
    const auto end = std::lower_bound(kHistogramEnds.begin(), kHistogramEnds.end(), middle);
    result.histogram[static_cast<std::size_t>(end - kHistogramEnds.begin())].elements += bins_[bin];
  }
  return result;
}

}  // namespace zerodiff::compare
