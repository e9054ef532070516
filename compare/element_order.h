// The number line of each element type: which bits are NaN, and how many steps apart two values
// are.
#pragma once

#include <cstdint>

#include "fixtures/element_type.h"

namespace zerodiff::compare {

// The values of a type in order. Floating-point types are sign and magnitude: a magnitude m stands
// at m, its negative at -m - 1, so that -0 and +0 are neighbours one step apart and a signed zero
// that differs is never 0 steps off. The fnuz formats have no -0 (0x80 is their NaN): there a
// negative magnitude stands at -m. Infinity is one step beyond the largest finite value. Integers
// stand at their own value.
struct ElementOrder {
  bool floating = false;
  bool fnuz = false;
  std::uint64_t sign = 0;               // the sign bit
  std::uint64_t largest_magnitude = 0;  // infinity, or the largest finite value; above it: NaN

  // `bits` zero-extended.
  bool is_nan(std::uint64_t bits) const {
    if (!floating) return false;
    if (fnuz) return bits == sign;
    return (bits & (sign - 1)) > largest_magnitude;
  }

  // Distance in steps. NaN patterns are counted as if the line went on beyond infinity; for the
  // NaN of an fnuz format the distance has no meaning.
  std::uint64_t steps(std::uint64_t a, std::uint64_t b) const {
    const std::int64_t place_a = place(a);
    const std::int64_t place_b = place(b);
    return place_a > place_b
               ? static_cast<std::uint64_t>(place_a) - static_cast<std::uint64_t>(place_b)
               : static_cast<std::uint64_t>(place_b) - static_cast<std::uint64_t>(place_a);
  }

  std::int64_t place(std::uint64_t bits) const {
    const auto magnitude = static_cast<std::int64_t>(bits & (sign - 1));
    if (!floating) return static_cast<std::int64_t>((bits ^ sign) - sign);
    if ((bits & sign) == 0) return magnitude;
    return fnuz ? -magnitude : -magnitude - 1;
  }
};

ElementOrder element_order(ElementType type);

// How far apart two elements are.
struct ElementDistance {
  double abs_error = 0;
  std::uint64_t ulp = 0;
  bool one_nan = false;  // exactly one of the two is NaN
};

// The distance of two elements whose bits differ. In decoded values (fp8 at unit scale) and
// binary64; +infinity and UINT64_MAX where exactly one is NaN. Two NaNs with other bits are 0 apart
// in value and some steps apart in bits. An infinity is +infinity apart from everything else.
ElementDistance distance(ElementType type, const ElementOrder& order, std::uint64_t expected,
                         std::uint64_t got);

}  // namespace zerodiff::compare
