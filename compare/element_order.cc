#include "compare/element_order.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "reference/number_formats.h"

namespace zerodiff::compare {

ElementOrder element_order(ElementType type) {
  switch (type) {
    case ElementType::bfloat16:
      return {true, false, 0x8000, 0x7F80};
    case ElementType::float16:
      return {true, false, 0x8000, 0x7C00};
    case ElementType::float32:
      return {true, false, 0x80000000, 0x7F800000};
    case ElementType::float8_e4m3fn:
      return {true, false, 0x80, 0x7E};
    case ElementType::float8_e5m2:
      return {true, false, 0x80, 0x7C};
    case ElementType::float8_e4m3fnuz:
    case ElementType::float8_e5m2fnuz:
      return {true, true, 0x80, 0x7F};
    case ElementType::int32:
      return {false, false, 0x80000000, 0};
    case ElementType::int64:
      return {false, false, std::uint64_t{1} << 63, 0};
  }
  return {};
}

ElementDistance distance(ElementType type, const ElementOrder& order, std::uint64_t expected,
                         std::uint64_t got) {
  ElementDistance result;
  result.ulp = order.steps(expected, got);
  if (!order.floating) {
    result.abs_error = static_cast<double>(result.ulp);
    return result;
  }
  const bool expected_nan = order.is_nan(expected);
  const bool got_nan = order.is_nan(got);
  if (expected_nan && got_nan) return result;
  if (expected_nan || got_nan) {
    return {std::numeric_limits<double>::infinity(), UINT64_MAX, true};
  }
  result.abs_error = std::abs(reference::value_of(type, expected) - reference::value_of(type, got));
  return result;
}

}  // namespace zerodiff::compare
