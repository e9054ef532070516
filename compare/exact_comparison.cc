#include "compare/exact_comparison.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <thread>

#include "compare/block_summary.h"
#include "compare/element_order.h"
#include "reference/number_formats.h"
#include "reference/parallel.h"

namespace zerodiff::compare {
namespace {

constexpr std::int64_t kLeastBytesPerThread = 1 << 20;

// A difference without its coordinates: what the inner loop handles.
struct Hit {
  std::int64_t index = 0;
  std::uint64_t expected = 0;
  std::uint64_t got = 0;
  double abs_error = 0;
  std::uint64_t ulp = 0;
};

// Larger abs error, then ulp, then lower index.
template <class Difference>
bool beats(const Difference& a, std::int64_t a_index, const Difference& b, std::int64_t b_index) {
  if (a.abs_error != b.abs_error) return a.abs_error > b.abs_error;
  if (a.ulp != b.ulp) return a.ulp > b.ulp;
  return a_index < b_index;
}

// One region of one thread's share, filled in flat order.
struct PartTally {
  BlockSummary sums;
  std::vector<Hit> first;
  std::optional<Hit> worst;

  void add(const BlockSummary& more) {
    sums.mismatches += more.mismatches;
    sums.nan_mismatches += more.nan_mismatches;
    sums.max_abs_error = std::max(sums.max_abs_error, more.max_abs_error);
    sums.max_ulp = std::max(sums.max_ulp, more.max_ulp);
  }

  // Whether elements with these totals may belong to `first` or be the worst.
  bool wants(const BlockSummary& more, std::size_t kept) const {
    if (first.size() < kept || !worst || more.max_abs_error > worst->abs_error) return true;
    return more.max_abs_error == worst->abs_error && more.max_ulp > worst->ulp;
  }

  void keep(const Hit& hit, std::size_t kept) {
    if (first.size() < kept) first.push_back(hit);
    if (!worst || beats(hit, hit.index, *worst, worst->index)) worst = hit;
  }

  void append(const PartTally& later, std::size_t kept) {
    add(later.sums);
    const std::size_t room = std::min(kept - std::min(kept, first.size()), later.first.size());
    first.insert(first.end(), later.first.begin(),
                 later.first.begin() + static_cast<std::ptrdiff_t>(room));
    if (later.worst && (!worst || beats(*later.worst, later.worst->index, *worst, worst->index))) {
      worst = later.worst;
    }
  }
};

// Tallies the elements [begin, end) by region.
class PartComparison {
 public:
  PartComparison(const TensorView& expected, const TensorView& got, const ElementMap& map,
                 std::size_t kept)
      : expected_(expected),
        got_(got),
        map_(map),
        kept_(kept),
        size_(static_cast<std::int64_t>(element_size(expected.type))),
        order_(element_order(expected.type)),
        tallies_(map.regions.size()) {}

  void run(std::int64_t begin, std::int64_t end) {
    const std::int64_t block = kSummaryBytes / size_;
    for (std::int64_t first = begin; first < end; first += block) {
      const std::int64_t count = std::min(block, end - first);
      const auto bytes = static_cast<std::size_t>(count * size_);
      if (std::memcmp(expected_at(first), got_at(first), bytes) != 0) look_at(first, count);
    }
  }

  const std::vector<PartTally>& tallies() const { return tallies_; }

 private:
  const std::byte* expected_at(std::int64_t index) const { return expected_.data + index * size_; }
  const std::byte* got_at(std::int64_t index) const { return got_.data + index * size_; }

  void look_at(std::int64_t first, std::int64_t count) {
    const std::int64_t end = first + count;
    while (first < end) {
      const ElementClass element =
          map_.class_of ? map_.class_of(first) : ElementClass{0, map_.nan_rule, end - first};
      assert(element.run > 0 && element.region < tallies_.size());
      const std::int64_t run = std::min(element.run, end - first);
      tally_run(first, run, tallies_[element.region], element.nan_rule == NanRule::any_nan);
      first += run;
    }
  }

  void tally_run(std::int64_t first, std::int64_t count, PartTally& tally, bool equal_nans) {
    const BlockSummary sums = summarise_block(expected_.type, expected_at(first), got_at(first),
                                              count * size_, equal_nans);
    if (sums.mismatches == 0) return;
    tally.add(sums);
    if (!tally.wants(sums, kept_)) return;
    for (std::int64_t index = first; index < first + count; ++index) {
      const std::uint64_t expected = bits(expected_at(index));
      const std::uint64_t got = bits(got_at(index));
      if (expected == got || (equal_nans && order_.is_nan(expected) && order_.is_nan(got)))
        continue;
      const ElementDistance apart = distance(expected_.type, order_, expected, got);
      tally.keep({index, expected, got, apart.abs_error, apart.ulp}, kept_);
    }
  }

  std::uint64_t bits(const std::byte* from) const {
    std::uint64_t value = 0;
    std::memcpy(&value, from, static_cast<std::size_t>(size_));
    return value;
  }

  const TensorView& expected_;
  const TensorView& got_;
  const ElementMap& map_;
  std::size_t kept_;
  std::int64_t size_;
  ElementOrder order_;
  std::vector<PartTally> tallies_;
};

std::vector<PartTally> compare_in_parts(const TensorView& expected, const TensorView& got,
                                        const ElementMap& map, const ComparisonOptions& options) {
  const std::int64_t size = expected.size();
  const auto bytes = size * static_cast<std::int64_t>(element_size(expected.type));
  const std::int64_t threads = options.threads > 0
                                   ? options.threads
                                   : static_cast<std::int64_t>(std::thread::hardware_concurrency());
  const std::int64_t count =
      std::clamp<std::int64_t>(bytes / kLeastBytesPerThread, 1, std::max<std::int64_t>(threads, 1));
  std::vector<PartComparison> parts(static_cast<std::size_t>(count),
                                    {expected, got, map, options.kept_differences});
  reference::parallel_for(
      count, static_cast<int>(count), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t part = begin; part < end; ++part) {
          parts[static_cast<std::size_t>(part)].run(size * part / count, size * (part + 1) / count);
        }
      });
  std::vector<PartTally> joined(map.regions.size());
  for (const PartComparison& part : parts) {
    for (std::size_t region = 0; region < joined.size(); ++region) {
      joined[region].append(part.tallies()[region], options.kept_differences);
    }
  }
  return joined;
}

ElementDifference describe(const Hit& hit, ElementType type, const ElementMap& map) {
  ElementDifference difference;
  difference.flat_index = hit.index;
  if (map.where) difference.where = map.where(hit.index);
  difference.expected_bits = hit.expected;
  difference.got_bits = hit.got;
  difference.expected = reference::value_of(type, hit.expected);
  difference.got = reference::value_of(type, hit.got);
  difference.abs_error = hit.abs_error;
  difference.ulp = hit.ulp;
  return difference;
}

Tally describe(const PartTally& part, ElementType type, std::int64_t elements,
               const ElementMap& map) {
  Tally tally;
  tally.elements = elements;
  tally.mismatches = part.sums.mismatches;
  tally.nan_mismatches = part.sums.nan_mismatches;
  tally.max_abs_error = part.sums.max_abs_error;
  tally.max_ulp = part.sums.max_ulp;
  if (part.worst) tally.worst = describe(*part.worst, type, map);
  for (const Hit& hit : part.first) tally.first.push_back(describe(hit, type, map));
  return tally;
}

void add(const Tally& part, Tally& total) {
  total.elements += part.elements;
  total.mismatches += part.mismatches;
  total.nan_mismatches += part.nan_mismatches;
  total.max_abs_error = std::max(total.max_abs_error, part.max_abs_error);
  total.max_ulp = std::max(total.max_ulp, part.max_ulp);
  total.first.insert(total.first.end(), part.first.begin(), part.first.end());
  if (part.worst && (!total.worst || beats(*part.worst, part.worst->flat_index, *total.worst,
                                           total.worst->flat_index))) {
    total.worst = part.worst;
  }
}

}  // namespace

std::vector<Region> compare_elements(const TensorView& expected, const TensorView& got,
                                     const ElementMap& map, const ComparisonOptions& options) {
  assert(expected.type == got.type && expected.shape == got.shape && !map.regions.empty());
  const std::vector<PartTally> parts = compare_in_parts(expected, got, map, options);
  std::vector<Region> regions;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const RegionSpec& spec = map.regions[i];
    regions.push_back(
        {spec.name, spec.counts, describe(parts[i], expected.type, spec.elements, map)});
  }
  return regions;
}

Tally total_of(const std::vector<Region>& regions, const ComparisonOptions& options) {
  Tally total;
  for (const Region& region : regions) {
    if (region.counts) add(region.tally, total);
  }
  std::sort(total.first.begin(), total.first.end(),
            [](const ElementDifference& a, const ElementDifference& b) {
              return a.flat_index < b.flat_index;
            });
  if (total.first.size() > options.kept_differences) total.first.resize(options.kept_differences);
  return total;
}

Tally compare_all(const TensorView& expected, const TensorView& got, NanRule nan_rule,
                  const ComparisonOptions& options) {
  ElementMap map;
  map.regions.front().elements = expected.size();
  map.nan_rule = nan_rule;
  return compare_elements(expected, got, map, options).front().tally;
}

}  // namespace zerodiff::compare
