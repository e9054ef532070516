#include "tests/oracle/number_formats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace zerodiff::oracle {
namespace {

constexpr std::array kFormats{ElementType::bfloat16,      ElementType::float16,
                              ElementType::float8_e4m3fn, ElementType::float8_e4m3fnuz,
                              ElementType::float8_e5m2,   ElementType::float8_e5m2fnuz};

std::uint32_t sign_mask(ElementType format) {
  return element_size(format) == 1 ? 0x80 : 0x8000;
}

// The value of a code without its sign, as if no code were infinite or NaN.
double grid_value(const FormatFacts& facts, std::uint32_t code) {
  const std::uint32_t exponent_field = code >> facts.mantissa_bits;
  const std::uint32_t mantissa_field = code & ((1U << facts.mantissa_bits) - 1);
  const double fraction = std::ldexp(mantissa_field, -facts.mantissa_bits);
  if (exponent_field == 0) return std::ldexp(fraction, 1 - facts.bias);
  return std::ldexp(1 + fraction, static_cast<int>(exponent_field) - facts.bias);
}

std::vector<double> make_grid(ElementType format) {
  const FormatFacts facts = facts_of(format);
  std::vector<double> grid;
  for (std::uint32_t code = 0; code <= facts.largest_code + 1; ++code) {
    grid.push_back(grid_value(facts, code));
  }
  return grid;
}

}  // namespace

FormatFacts facts_of(ElementType format) {
  switch (format) {
    case ElementType::bfloat16:
      return {8, 7, 127, 0x7F7F, false, true};
    case ElementType::float16:
      return {5, 10, 15, 0x7BFF, false, true};
    case ElementType::float8_e4m3fn:
      return {4, 3, 7, 0x7E, false, false};
    case ElementType::float8_e4m3fnuz:
      return {4, 3, 8, 0x7F, true, false};
    case ElementType::float8_e5m2:
      return {5, 2, 15, 0x7B, false, true};
    case ElementType::float8_e5m2fnuz:
      return {5, 2, 16, 0x7F, true, false};
    default:
      throw std::logic_error("not an 8- or 16-bit floating-point format");
  }
}

double decode(ElementType format, std::uint32_t code) {
  const FormatFacts facts = facts_of(format);
  const bool negative = (code & sign_mask(format)) != 0;
  const std::uint32_t magnitude = code & (sign_mask(format) - 1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (facts.fnuz && negative && magnitude == 0) return nan;
  double value = nan;
  if (magnitude <= facts.largest_code) {
    value = grid_value(facts, magnitude);
  } else if (facts.has_infinity && magnitude == facts.largest_code + 1) {
    value = std::numeric_limits<double>::infinity();
  }
  return negative ? -value : value;
}

const std::vector<double>& grid_of(ElementType format) {
  static const std::array<std::vector<double>, kFormats.size()> grids = [] {
    std::array<std::vector<double>, kFormats.size()> made;
    for (std::size_t i = 0; i < kFormats.size(); ++i) made.at(i) = make_grid(kFormats.at(i));
    return made;
  }();
  const auto* place = std::find(kFormats.begin(), kFormats.end(), format);
  return grids.at(static_cast<std::size_t>(place - kFormats.begin()));
}

std::uint32_t nearest_code(ElementType format, double magnitude) {
  const std::vector<double>& grid = grid_of(format);
  const auto above = std::lower_bound(grid.begin(), grid.end(), magnitude);
  if (above == grid.end()) return static_cast<std::uint32_t>(grid.size() - 1);
  const auto code = static_cast<std::uint32_t>(above - grid.begin());
  if (*above == magnitude) return code;
  const double below = grid[code - 1];
  const double middle = (below + *above) / 2;
  if (magnitude < middle) return code - 1;
  if (magnitude > middle) return code;
  return code % 2 == 0 ? code : code - 1;
}

std::uint16_t encode_model_dtype(ElementType format, float value) {
  const FormatFacts facts = facts_of(format);
  const std::uint32_t infinity = facts.largest_code + 1;
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinity | (infinity >> 1));
  const std::uint32_t sign = std::signbit(value) ? sign_mask(format) : 0;
  // The code after the largest finite one is infinity's.
  return static_cast<std::uint16_t>(sign | nearest_code(format, std::fabs(value)));
}

std::uint8_t encode_fp8(ElementType format, float value, Overflow overflow) {
  const FormatFacts facts = facts_of(format);
  const std::uint32_t sign = std::signbit(value) ? 0x80 : 0;
  const std::uint32_t nan_code = facts.fnuz ? 0x80 : sign | 0x7F;
  if (std::isnan(value)) return static_cast<std::uint8_t>(nan_code);
  const std::uint32_t code = nearest_code(format, std::fabs(value));
  if (code > facts.largest_code) {
    if (overflow == Overflow::nan) return static_cast<std::uint8_t>(nan_code);
    if (overflow == Overflow::inf) return static_cast<std::uint8_t>(sign | 0x7C);
    return static_cast<std::uint8_t>(sign | facts.largest_code);
  }
  if (code == 0 && facts.fnuz) return 0;
  return static_cast<std::uint8_t>(sign | code);
}

}  // namespace zerodiff::oracle
