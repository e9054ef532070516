#include "reference/number_formats.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

namespace zerodiff::reference {
namespace {

constexpr std::uint32_t kSignBit = 0x80000000U;
constexpr std::uint32_t kInfinityBits = 0x7F800000U;

// significand / 2^shift, rounded to nearest, ties to even; shift from 1 to 31.
constexpr std::uint32_t shift_right_to_even(std::uint32_t significand, std::uint32_t shift) {
  const std::uint32_t half_minus_one = (1U << (shift - 1)) - 1;
  const std::uint32_t odd = (significand >> shift) & 1U;
  return (significand + half_minus_one + odd) >> shift;
}

// Branch-free, so that the bulk forms vectorise.
inline std::uint16_t bfloat16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40U;
  const bool nan = (bits & ~kSignBit) > kInfinityBits;
  return static_cast<std::uint16_t>(nan ? quiet : rounded);
}

inline std::uint16_t float16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & ~kSignBit;
  const std::uint32_t sign = (bits & kSignBit) >> 16;
  // Normal results: rebias the exponent from 127 to 15 and drop 13 mantissa bits; what overflows is
  // capped at infinity.
  const std::uint32_t rebased = magnitude - (112U << 23);
  const std::uint32_t normal =
      std::min((rebased + 0xFFFU + ((rebased >> 13) & 1U)) >> 13, std::uint32_t{0x7C00});
  // Subnormal results: multiples of 2^-24. Below 2^-25 the shift is capped where it gives zero.
  const std::uint32_t exponent = magnitude >> 23;
  const std::uint32_t shift = std::min(126U - std::min(exponent, 112U), 25U);
  const std::uint32_t subnormal = shift_right_to_even((magnitude & 0x7FFFFFU) | 0x800000U, shift);
  std::uint32_t result = exponent < 113U ? subnormal : normal;
  result = magnitude > kInfinityBits ? 0x7E00U | ((magnitude >> 13) & 0x3FFU) : result;
  return static_cast<std::uint16_t>(sign | result);
}

inline float float_of_float16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  const std::uint32_t normal = ((exponent + 112U) << 23) | (mantissa << 13);
  const auto subnormal = std::bit_cast<std::uint32_t>(
      static_cast<float>(static_cast<std::int32_t>(mantissa)) * 0x1p-24F);
  const std::uint32_t special = kInfinityBits | (mantissa << 13);
  const std::uint32_t magnitude = exponent == 0 ? subnormal : exponent == 31 ? special : normal;
  return std::bit_cast<float>(sign | magnitude);
}

inline float float_of_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// The fp8 code of a magnitude as if the format went on past its largest finite value.
std::uint32_t unbounded_fp8_code(const Fp8Range& range, std::uint32_t magnitude) {
  const auto mantissa_bits = static_cast<std::uint32_t>(range.mantissa_bits);
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const int least_exponent = 1 - range.exponent_bias;
  // A binary32 subnormal lies far below half of any fp8 subnormal.
  if (exponent < least_exponent - range.mantissa_bits - 1) return 0;
  const std::uint32_t significand = (magnitude & 0x7FFFFFU) | 0x800000U;
  const int grid_exponent = std::max(exponent, least_exponent);
  const auto shift = 23U - mantissa_bits + static_cast<std::uint32_t>(grid_exponent - exponent);
  const auto binade = static_cast<std::uint32_t>(grid_exponent - least_exponent);
  return (binade << mantissa_bits) + shift_right_to_even(significand, shift);
}

std::uint8_t overflow_code(const Fp8Range& range, std::uint8_t sign, Overflow overflow) {
  constexpr std::uint8_t kInfinityCode = 0x7C;
  switch (overflow) {
    case Overflow::saturate:
      return static_cast<std::uint8_t>(sign | range.largest_code);
    case Overflow::inf:
      assert(range.has_infinity);
      return static_cast<std::uint8_t>(sign | kInfinityCode);
    case Overflow::nan:
      break;
  }
  return range.fnuz ? range.nan_code : static_cast<std::uint8_t>(sign | range.nan_code);
}

}  // namespace

float from_bfloat16(std::uint16_t bits) {
  return float_of_bfloat16(bits);
}
float from_float16(std::uint16_t bits) {
  return float_of_float16(bits);
}
std::uint16_t to_bfloat16(float value) {
  return bfloat16_of(value);
}
std::uint16_t to_float16(float value) {
  return float16_of(value);
}

float from_model_dtype(ElementType type, std::uint16_t bits) {
  assert(is_model_dtype(type));
  return type == ElementType::bfloat16 ? float_of_bfloat16(bits) : float_of_float16(bits);
}

std::uint16_t to_model_dtype(ElementType type, float value) {
  assert(is_model_dtype(type));
  return type == ElementType::bfloat16 ? bfloat16_of(value) : float16_of(value);
}

float round_to_model_dtype(ElementType type, float value) {
  return from_model_dtype(type, to_model_dtype(type, value));
}

const Fp8Range& fp8_range(ElementType format) {
  static constexpr Fp8Range kE4m3fn{3, 7, 448.0F, 0x7E, 0x7F, false, false};
  static constexpr Fp8Range kE4m3fnuz{3, 8, 240.0F, 0x7F, 0x80, true, false};
  static constexpr Fp8Range kE5m2{2, 15, 57344.0F, 0x7B, 0x7F, false, true};
  static constexpr Fp8Range kE5m2fnuz{2, 16, 57344.0F, 0x7F, 0x80, true, false};
  assert(is_fp8(format));
  switch (format) {
    case ElementType::float8_e4m3fn:
      return kE4m3fn;
    case ElementType::float8_e4m3fnuz:
      return kE4m3fnuz;
    case ElementType::float8_e5m2:
      return kE5m2;
    default:
      return kE5m2fnuz;
  }
}

float decode_fp8(ElementType format, std::uint8_t code) {
  const Fp8Range& range = fp8_range(format);
  const int magnitude = code & 0x7F;
  const float sign = (code & 0x80) != 0 ? -1.0F : 1.0F;
  if (range.fnuz && code == range.nan_code) return std::numeric_limits<float>::quiet_NaN();
  if (!range.fnuz && magnitude > range.largest_code) {
    const bool infinity = range.has_infinity && magnitude == range.largest_code + 1;
    return infinity ? sign * std::numeric_limits<float>::infinity()
                    : std::numeric_limits<float>::quiet_NaN();
  }
  const int mantissa = magnitude & ((1 << range.mantissa_bits) - 1);
  const int field = magnitude >> range.mantissa_bits;
  const int significand = field == 0 ? mantissa : mantissa + (1 << range.mantissa_bits);
  const int exponent = std::max(field, 1) - range.exponent_bias - range.mantissa_bits;
  return sign * std::ldexp(static_cast<float>(significand), exponent);
}

std::uint8_t encode_fp8(ElementType format, float value, Overflow overflow) {
  const Fp8Range& range = fp8_range(format);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & ~kSignBit;
  const auto sign = static_cast<std::uint8_t>((bits & kSignBit) >> 24);
  if (magnitude > kInfinityBits) {
    return range.fnuz ? range.nan_code : static_cast<std::uint8_t>(sign | range.nan_code);
  }
  const std::uint32_t code = unbounded_fp8_code(range, magnitude);
  if (code > range.largest_code) return overflow_code(range, sign, overflow);
  if (code == 0 && range.fnuz) return 0;
  return static_cast<std::uint8_t>(sign | code);
}

double fp8_step(ElementType format, std::uint8_t code) {
  const Fp8Range& range = fp8_range(format);
  const int field = (code & 0x7F) >> range.mantissa_bits;
  return std::ldexp(1.0, std::max(field, 1) - range.exponent_bias - range.mantissa_bits);
}

double value_of(ElementType type, std::uint64_t bits) {
  switch (type) {
    case ElementType::bfloat16:
    case ElementType::float16:
      return static_cast<double>(from_model_dtype(type, static_cast<std::uint16_t>(bits)));
    case ElementType::float32:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case ElementType::int32:
      return static_cast<double>(static_cast<std::int32_t>(static_cast<std::uint32_t>(bits)));
    case ElementType::int64:
      return static_cast<double>(static_cast<std::int64_t>(bits));
    default:
      return static_cast<double>(decode_fp8(type, static_cast<std::uint8_t>(bits)));
  }
}

void from_model_dtype(ElementType type, std::span<const std::uint16_t> bits, std::span<float> out) {
  assert(is_model_dtype(type) && bits.size() == out.size());
  if (type == ElementType::bfloat16) {
    for (std::size_t i = 0; i < bits.size(); ++i) out[i] = float_of_bfloat16(bits[i]);
  } else {
    for (std::size_t i = 0; i < bits.size(); ++i) out[i] = float_of_float16(bits[i]);
  }
}

void to_model_dtype(ElementType type, std::span<const float> values, std::span<std::uint16_t> out) {
  assert(is_model_dtype(type) && values.size() == out.size());
  if (type == ElementType::bfloat16) {
    for (std::size_t i = 0; i < values.size(); ++i) out[i] = bfloat16_of(values[i]);
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) out[i] = float16_of(values[i]);
  }
}

}  // namespace zerodiff::reference
