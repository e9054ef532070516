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
constexpr auto kFirstFp8 = static_cast<std::size_t>(ElementType::float8_e4m3fn);

// significand / 2^shift, rounded to nearest, ties to even; shift from 1 to 31.
constexpr std::uint32_t shift_right_to_even(std::uint32_t significand, std::uint32_t shift) {
  const std::uint32_t half_minus_one = (1U << (shift - 1)) - 1;
  const std::uint32_t odd = (significand >> shift) & 1U;
  return (significand + half_minus_one + odd) >> shift;
}

// Branch-free, so that the bulk forms vectorise.
inline std::uint16_t bfloat16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16) & 1U);
  const std::uint32_t quiet = bits | 0x400000U;
  // A NaN is told by comparing floats: one vector instruction, where integers need several.
  return static_cast<std::uint16_t>((value != value ? quiet : rounded) >> 16);
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

// An encoder with the constants of its format at hand; branch-free, so that loops over it
// vectorise.
class Fp8Encoder {
 public:
  Fp8Encoder(const Fp8Range& range, Overflow overflow)
      : mantissa_bits_(static_cast<std::uint32_t>(range.mantissa_bits)),
        least_exponent_(1 - range.exponent_bias),
        largest_code_(range.largest_code),
        zero_sign_(range.fnuz ? 0U : 0x80U),
        nan_sign_(range.fnuz ? 0U : 0x80U),
        nan_code_(range.nan_code),
        overflow_sign_(overflow == Overflow::nan ? nan_sign_ : 0x80U),
        overflow_code_(overflow_code(range, overflow)) {}

  std::uint8_t operator()(float value) const {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & ~kSignBit;
    const std::uint32_t sign = bits >> 24 & 0x80U;
    // The code as if the format went on past its largest finite value. A binary32 subnormal, whose
    // significand has no hidden bit, is far below half of any fp8 subnormal: its shift gives zero.
    const int exponent = static_cast<int>(magnitude >> 23) - 127;
    const int grid_exponent = std::max(exponent, least_exponent_);
    const std::uint32_t shift =
        std::min(23U - mantissa_bits_ + static_cast<std::uint32_t>(grid_exponent - exponent), 31U);
    const auto binade = static_cast<std::uint32_t>(grid_exponent - least_exponent_);
    const std::uint32_t code = (binade << mantissa_bits_) +
                               shift_right_to_even((magnitude & 0x7FFFFFU) | 0x800000U, shift);
    std::uint32_t result = code | (sign & (code == 0 ? zero_sign_ : 0x80U));
    result = code > largest_code_ ? overflow_code_ | (sign & overflow_sign_) : result;
    result = magnitude > kInfinityBits ? nan_code_ | (sign & nan_sign_) : result;
    return static_cast<std::uint8_t>(result);
  }

 private:
  static std::uint32_t overflow_code(const Fp8Range& range, Overflow overflow) {
    assert(overflow != Overflow::inf || range.has_infinity);
    switch (overflow) {
      case Overflow::saturate:
        return range.largest_code;
      case Overflow::inf:
        return range.largest_code + 1U;
      case Overflow::nan:
        break;
    }
    return range.nan_code;
  }

  std::uint32_t mantissa_bits_;
  int least_exponent_;
  std::uint32_t largest_code_;
  std::uint32_t zero_sign_;
  std::uint32_t nan_sign_;
  std::uint32_t nan_code_;
  std::uint32_t overflow_sign_;
  std::uint32_t overflow_code_;
};

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

const std::array<float, 256>& fp8_values(ElementType format) {
  static const auto kTables = [] {
    std::array<std::array<float, 256>, 4> tables{};
    for (std::size_t i = 0; i < tables.size(); ++i) {
      const auto type = static_cast<ElementType>(kFirstFp8 + i);
      for (std::size_t code = 0; code < 256; ++code) {
        tables[i][code] = decode_fp8(type, static_cast<std::uint8_t>(code));
      }
    }
    return tables;
  }();
  assert(is_fp8(format));
  return kTables[static_cast<std::size_t>(format) - kFirstFp8];
}

std::uint8_t encode_fp8(ElementType format, float value, Overflow overflow) {
  return Fp8Encoder(fp8_range(format), overflow)(value);
}

void encode_fp8(ElementType format, std::span<const float> values, Overflow overflow,
                std::span<std::uint8_t> codes) {
  assert(values.size() == codes.size());
  const Fp8Encoder encode(fp8_range(format), overflow);
  for (std::size_t i = 0; i < values.size(); ++i) codes[i] = encode(values[i]);
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

void round_to_model_dtype(ElementType type, std::span<float> values) {
  assert(is_model_dtype(type));
  if (type == ElementType::bfloat16) {
    for (float& value : values) value = float_of_bfloat16(bfloat16_of(value));
  } else {
    for (float& value : values) value = float_of_float16(float16_of(value));
  }
}

}  // namespace zerodiff::reference
