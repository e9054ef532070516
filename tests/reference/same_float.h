// Equality of binary32 values by bits, with NaNs as one class.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace zerodiff::test {

inline testing::AssertionResult same(float expected, float got) {
  if (std::isnan(expected) && std::isnan(got)) return testing::AssertionSuccess();
  if (std::bit_cast<std::uint32_t>(expected) == std::bit_cast<std::uint32_t>(got)) {
    return testing::AssertionSuccess();
  }
  char text[96];
  std::snprintf(text, sizeof text, "expected %a, got %a", static_cast<double>(expected),
                static_cast<double>(got));
  return testing::AssertionFailure() << text;
}

}  // namespace zerodiff::test
