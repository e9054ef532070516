// Number formats of the reference: bits to values and back (numerics.md sections 0 and 1).
//
// Every conversion is exact or rounded once, ties to even, subnormals kept. Nothing here depends
// on the floating-point environment or on the processor's own conversion instructions.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "fixtures/element_type.h"
#include "fixtures/layer_config.h"
#include "fixtures/tensor.h"

namespace zerodiff::reference {

// Exact.
float from_bfloat16(std::uint16_t bits);
float from_float16(std::uint16_t bits);

// Rounded once; overflow goes to infinity; a NaN stays a NaN (its sign kept, its payload quieted).
std::uint16_t to_bfloat16(float value);
std::uint16_t to_float16(float value);

// The model dtype, bfloat16 or float16, by run-time type.
float from_model_dtype(ElementType type, std::uint16_t bits);
std::uint16_t to_model_dtype(ElementType type, float value);

// MD(value): rounded to the model dtype and decoded again.
float round_to_model_dtype(ElementType type, float value);

// The range of an fp8 format.
struct Fp8Range {
  int mantissa_bits;          // 3 or 2
  int exponent_bias;          // as the table of numerics.md section 1
  float largest_finite;       // 448, 240 or 57344
  std::uint8_t largest_code;  // its code
  std::uint8_t nan_code;      // of a positive NaN, 0x7F or 0x80
  bool fnuz;                  // one NaN, no infinity, no negative zero
  bool has_infinity;          // float8_e5m2 only
};
const Fp8Range& fp8_range(ElementType format);

// Exact. NaN codes give a quiet NaN.
float decode_fp8(ElementType format, std::uint8_t code);

// decode_fp8 of all 256 codes.
const std::array<float, 256>& fp8_values(ElementType format);

// encode(v, format, overflow) of numerics.md section 1. Overflow::inf is meant for float8_e5m2.
std::uint8_t encode_fp8(ElementType format, float value, Overflow overflow);

// The same for many values, branch-free.
void encode_fp8(ElementType format, std::span<const float> values, Overflow overflow,
                std::span<std::uint8_t> codes);

// Distance between neighbouring values at a finite code (subnormals included), as the step of the
// code's own binade.
double fp8_step(ElementType format, std::uint8_t code);

// The value of any element, by type: bits zero-extended in `bits`.
double value_of(ElementType type, std::uint64_t bits);

// Bulk forms; both spans have the same length.
void from_model_dtype(ElementType type, std::span<const std::uint16_t> bits, std::span<float> out);
void to_model_dtype(ElementType type, std::span<const float> values, std::span<std::uint16_t> out);
void round_to_model_dtype(ElementType type, std::span<float> values);  // in place

}  // namespace zerodiff::reference
