// How much of its bound a result uses (docs/verdicts.md section 1): the largest share, its
// distribution and the worst element.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "compare/legal_report.h"

namespace zerodiff::compare {

// One element held against its bound.
struct BoundedElement {
  std::int64_t flat_index = 0;
  Coordinates where;  // filled in by who knows what the index means
  double got = 0;
  double exact = 0;
  double bound = 0;
  double headroom = 0;  // |got - exact| / bound; infinite for a NaN where there should be none

  bool outside() const { return !(headroom <= 1); }
};

// Elements with a headroom above the bin before and up to `upper`; the last bin has no upper end.
struct HeadroomBin {
  double upper = 0;
  std::int64_t elements = 0;
};

struct Headroom {
  std::int64_t elements = 0;
  std::int64_t outside = 0;    // beyond their bound: faults
  std::int64_t unbounded = 0;  // whether a sum overflows depends on its order: no finite bound
  double max = 0;              // of the bounded elements
  double max_abs_error = 0;    // |got - exact|, numbers only
  double median = 0;           // quantiles are exact to one part in 64
  double p90 = 0;
  double p99 = 0;
  std::vector<HeadroomBin> histogram;
  std::optional<BoundedElement> worst;        // largest headroom, then lowest index
  std::vector<BoundedElement> first_outside;  // the first few in flat order
};

// Collects elements in any order; one a thread, merged afterwards. The result does not depend on
// how the elements were divided.
class HeadroomCollector {
 public:
  // kept: length of Headroom::first_outside.
  explicit HeadroomCollector(std::size_t kept = 8) : kept_(kept) {}

  void add(std::int64_t flat_index, double got, double exact, double bound, double headroom);
  void add_unbounded() { ++unbounded_; }
  void merge(const HeadroomCollector& other);
  Headroom result() const;
  std::int64_t outside() const { return outside_; }

 private:
  // Headroom 0, then 64 bins an octave from 2^-24 to 2^8.
  static constexpr int kBinsPerOctave = 64;
  static constexpr int kLowestOctave = -24;
  static constexpr int kOctaves = 32;
  static constexpr std::size_t kBins = 1 + kBinsPerOctave * kOctaves;

  static std::size_t bin_of(double headroom);
  static double upper_of(std::size_t bin);
  double quantile(double share) const;
  void keep_outside(BoundedElement element);

  std::size_t kept_;
  std::int64_t elements_ = 0;
  std::int64_t outside_ = 0;
  std::int64_t unbounded_ = 0;
  double max_abs_error_ = 0;
  std::array<std::int64_t, kBins> bins_{};
  std::optional<BoundedElement> worst_;
  std::vector<BoundedElement> first_outside_;
};

}  // namespace zerodiff::compare
