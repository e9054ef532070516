// What differs within a few kilobytes of two tensors, as totals: the fast inner loop of the exact
// comparison. It says how bad the block is, not where.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compare/element_order.h"
#include "fixtures/element_type.h"

namespace zerodiff::compare {

inline constexpr std::int64_t kSummaryBytes = 4096;  // most bytes of one call

struct BlockSummary {
  std::int64_t mismatches = 0;
  std::int64_t nan_mismatches = 0;  // of these, exactly one side NaN
  double max_abs_error = 0;
  std::uint64_t max_ulp = 0;
};

// Sums up `bytes` bytes (a whole number of elements, at most kSummaryBytes, no alignment asked)
// with the rules of element_order.h. `equal_nans`: two NaNs are no mismatch whatever their bits.
BlockSummary summarise_block(ElementType type, const std::byte* expected, const std::byte* got,
                             std::int64_t bytes, bool equal_nans);

}  // namespace zerodiff::compare
