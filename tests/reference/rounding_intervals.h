// The binary32 values that round to each code of an 8- or 16-bit format, as ranges of bit patterns.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/oracle/number_formats.h"

namespace zerodiff::test {

// Non-negative binary32 values from `first` to `last`, both included, as bits (which are in the
// order of the values) round to `code`. The code after largest_code stands for overflow.
struct RoundingInterval {
  std::uint32_t code;
  std::uint32_t first;
  std::uint32_t last;
};

inline constexpr std::uint32_t kInfinityBits = 0x7F800000;

// The bits of the midpoint between a code and the next one, exact in binary32 for every format.
inline std::uint32_t midpoint_bits(std::span<const double> grid, std::uint32_t code) {
  const double middle = (grid[code] + grid[code + 1]) / 2;
  const auto rounded = static_cast<float>(middle);
  assert(static_cast<double>(rounded) == middle);
  return std::bit_cast<std::uint32_t>(rounded);
}

// One interval a code, in order; together they hold every bit pattern from +0 to +infinity once.
inline std::vector<RoundingInterval> rounding_intervals(ElementType format) {
  const std::vector<double>& grid = oracle::grid_of(format);
  const auto overflow_code = static_cast<std::uint32_t>(grid.size() - 1);
  std::vector<RoundingInterval> intervals;
  std::uint32_t first = 0;
  for (std::uint32_t code = 0; code < overflow_code; ++code) {
    const bool keeps_tie = code % 2 == 0;
    const std::uint32_t last = midpoint_bits(grid, code) - (keeps_tie ? 0 : 1);
    intervals.push_back({code, first, last});
    first = last + 1;
  }
  intervals.push_back({overflow_code, first, kInfinityBits});
  return intervals;
}

}  // namespace zerodiff::test
