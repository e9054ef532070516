// Comparison of two tensors element by element: what differs, how often, by how much and where
// first. The rule is numerics.md section 0: bits, signed zeros included, and any NaN equals any NaN
// where the elements are computed results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compare/report.h"
#include "fixtures/tensor.h"

namespace zerodiff::compare {

// Whether two NaNs of other bits are the same result.
enum class NanRule : std::uint8_t {
  any_nan,  // computed results: payloads and signs of NaNs differ between chips
  bits,     // copies and untouched memory
};

struct ComparisonOptions {
  int threads = 0;                   // 0: one for each core; results do not depend on it
  std::size_t kept_differences = 8;  // length of Tally::first
};

// A part of the elements that is counted apart.
struct RegionSpec {
  std::string name;
  bool counts = true;
  std::int64_t elements = 0;  // how many elements belong to it
};

// What one element is.
struct ElementClass {
  std::size_t region = 0;  // index into the regions
  NanRule nan_rule = NanRule::any_nan;
  std::int64_t run = 1;  // this many elements, this one first, are alike; it may say too few
};

// Which elements belong together and what their flat indices mean. `class_of` is asked only
// near elements whose bits differ, from several threads at once; an empty one puts every element
// into region 0 under `nan_rule`. `where` is asked about kept differences only; an empty one leaves
// the coordinates empty.
struct ElementMap {
  std::vector<RegionSpec> regions{{"all", true, 0}};
  std::function<ElementClass(std::int64_t flat_index)> class_of;
  NanRule nan_rule = NanRule::any_nan;
  std::function<Coordinates(std::int64_t flat_index)> where;
};

// One Region for each of map.regions, in order. The views must have one type and one shape.
//
// Speed: equal memory costs as much as memcmp; blocks of 4 KiB that differ are summed up by a
// vector loop, and looked at element by element only while there are first or worst differences
// to be had in them. Long runs of one class (ElementClass::run) keep the vector loop long.
std::vector<Region> compare_elements(const TensorView& expected, const TensorView& got,
                                     const ElementMap& map, const ComparisonOptions& options = {});

// The tally over the regions that count.
Tally total_of(const std::vector<Region>& regions, const ComparisonOptions& options = {});

// All elements of two tensors as one region, without coordinates.
Tally compare_all(const TensorView& expected, const TensorView& got, NanRule nan_rule,
                  const ComparisonOptions& options = {});

}  // namespace zerodiff::compare
