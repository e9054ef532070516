// The six 8- and 16-bit number formats by table: every finite code's value, and rounding as a
// search for the nearest one (numerics.md sections 0 and 1).
#pragma once

#include <cstdint>
#include <vector>

#include "fixtures/element_type.h"
#include "fixtures/layer_config.h"

namespace zerodiff::oracle {

struct FormatFacts {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  std::uint32_t largest_code;  // of the largest finite value
  bool fnuz;                   // one NaN, no infinity, no negative zero
  bool has_infinity;
};
FormatFacts facts_of(ElementType format);

// The value of a code; a NaN for NaN codes.
double decode(ElementType format, std::uint32_t code);

// The values of the codes 0, 1, ... largest_code, and of the code after it as if the grid went on.
const std::vector<double>& grid_of(ElementType format);

// The code in 0 ... largest_code + 1 whose grid value is nearest to `magnitude` (>= 0, not NaN),
// an even code on ties. Anything past the grid gives largest_code + 1.
std::uint32_t nearest_code(ElementType format, double magnitude);

// MD(value) as bits. Any NaN gives a quiet NaN.
std::uint16_t encode_model_dtype(ElementType format, float value);

// encode(value, format, overflow).
std::uint8_t encode_fp8(ElementType format, float value, Overflow overflow);

}  // namespace zerodiff::oracle
