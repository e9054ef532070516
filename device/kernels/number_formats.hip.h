// The model dtypes and the four fp8 formats as bits (numerics.md section 1).
//
// encode() and decode() are arithmetic that is the same on every chip. Two numbers at a time go
// through the chip's own conversion where that rounds exactly so (NaN payloads apart).
#pragma once

#include "device/kernels/contract.h"
#include "device/kernels/plant.hip.h"
#include "device/platform/platform.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

struct BFloat16 {
  static __device__ __forceinline__ float decode(uint16_t bits) {
    return bits_as<float>(static_cast<uint32_t>(bits) << 16);
  }

  // Ties to even, overflow to infinity, NaN to a quiet NaN.
  static __device__ __forceinline__ uint16_t encode(float value) {
    const uint32_t bits = bits_as<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    const bool is_nan = ZERODIFF_PLANT(fastmath_nan_guard, value != value, false);
    return static_cast<uint16_t>(is_nan ? 0x7FC0 : rounded);
  }

  // Two elements in a word, the first one below.
  static __device__ __forceinline__ float decode_low(uint32_t word) {
    return bits_as<float>(word << 16);
  }
  static __device__ __forceinline__ float decode_high(uint32_t word) {
    return bits_as<float>(word & 0xFFFF0000);
  }
  static __device__ __forceinline__ uint32_t encode_pair(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return encode(low) | static_cast<uint32_t>(encode(high)) << 16;
#endif
  }
};

struct Float16 {
  static __device__ __forceinline__ float decode(uint16_t bits) {
    const uint32_t magnitude = bits & 0x7FFFU;
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    const uint32_t finite = bits_as<uint32_t>(bits_as<float>(magnitude << 13) * 0x1p112F);
    return bits_as<float>(sign | (magnitude >= 0x7C00 ? (magnitude << 13) | 0x7F800000 : finite));
  }

  // Ties to even, subnormals kept, overflow to infinity, NaN to a quiet NaN.
  static __device__ __forceinline__ uint16_t encode(float value) {
    const uint32_t bits = bits_as<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    const uint32_t normal = ((magnitude + 0xFFF + ((magnitude >> 13) & 1)) >> 13) - (112 << 10);
    // The last place of 0.5 is worth the smallest subnormal: adding it rounds to that grid.
    const uint32_t subnormal =
        bits_as<uint32_t>(bits_as<float>(magnitude) + 0.5F) - bits_as<uint32_t>(0.5F);
    uint32_t code = magnitude < 113U << 23 ? subnormal : normal;
    code = code > 0x7C00 ? 0x7C00 : code;
    code = magnitude > 0x7F800000 ? 0x7E00 : code;
    return static_cast<uint16_t>((bits >> 16 & 0x8000) | code);
  }

  static __device__ __forceinline__ float decode_low(uint32_t word) {
    return convert(static_cast<uint16_t>(word));
  }
  static __device__ __forceinline__ float decode_high(uint32_t word) {
    return convert(static_cast<uint16_t>(word >> 16));
  }
  static __device__ __forceinline__ uint32_t encode_pair(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#elif defined(__HIP_DEVICE_COMPILE__)
    return bits_as<uint16_t>(static_cast<_Float16>(low)) |
           static_cast<uint32_t>(bits_as<uint16_t>(static_cast<_Float16>(high))) << 16;
#else
    return encode(low) | static_cast<uint32_t>(encode(high)) << 16;
#endif
  }

 private:
  static __device__ __forceinline__ float convert(uint16_t bits) {
#if defined(__CUDA_ARCH__)
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#elif defined(__HIP_DEVICE_COMPILE__)
    return static_cast<float>(bits_as<_Float16>(bits));
#else
    return decode(bits);
#endif
  }
};

// One fp8 format with one overflow rule.
struct Fp8Encoder {
  float largest;             // finite value
  float limit;               // larger magnitudes become `overflow_code`
  uint32_t smallest_normal;  // as binary32 bits
  uint32_t dropped_bits;     // of a binary32 mantissa
  float rebias;              // moves the format's exponent range to where binary32 begins
  uint32_t overflow_code;
  uint32_t nan_code;
  bool negative_zero;
  int32_t chip_format;  // the format, or -1 if no chip follows the overflow rule

  __device__ __forceinline__ uint32_t encode(float value) const {
    const float magnitude = fabsf(value);
    const float bounded = fminf(magnitude, largest);
    // A power of two whose last place is worth the format's: adding it rounds to the format's grid.
    const uint32_t exponent = bits_as<uint32_t>(bounded) & 0x7F800000;
    const float anchor = bits_as<float>((exponent > smallest_normal ? exponent : smallest_normal) +
                                        (dropped_bits << 23));
    const float rounded = ZERODIFF_PLANT(fp8_round_half_away,
                                         ZERODIFF_PLANT(fp8_truncation, (bounded + anchor) - anchor,
                                                        planted::truncated(bounded, anchor)),
                                         planted::rounded_half_away(bounded, anchor));
    // Exact, and a subnormal where the format's number is one: the code stands in its upper bits.
    uint32_t code = bits_as<uint32_t>(rounded * rebias) >> dropped_bits;
    code = ZERODIFF_PLANT(fp8_early_saturation, code,
                          planted::early_saturated(code, largest * rebias, dropped_bits));
    code = ZERODIFF_PLANT(fp8_tiny_shift_ub, code,
                          planted::unclamped_shift(bits_as<uint32_t>(magnitude), code, dropped_bits,
                                                   smallest_normal));
    code = magnitude > limit ? overflow_code : code;
    const bool is_nan = ZERODIFF_PLANT(fastmath_nan_guard, value != value, false);
    code = is_nan ? nan_code : code;
    const uint32_t sign = bits_as<uint32_t>(value) >> 24 & 0x80;
    code = code == 0 && !negative_zero ? 0 : code | sign;
    return ZERODIFF_PLANT(fp8_byte_numeric_cast, code, planted::numeric_byte(value));
  }

  // Two elements in 16 bits, the first one below.
  __device__ __forceinline__ uint32_t encode_pair(float low, float high) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890 && !defined(ZERODIFF_PLANTED_KERNELS)
    uint16_t codes;
    if (chip_format == kE4m3fn) {
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
      return codes;
    }
    if (chip_format == kE5m2) {
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
      return codes;
    }
#endif
    return encode(low) | encode(high) << 8;
  }
};

// `declared` is kE4m3fn ... kE5m2fnuz; of `switches` the overflow bits count.
__device__ __forceinline__ Fp8Encoder make_fp8_encoder(int32_t declared, uint32_t switches) {
  const int32_t format =
      ZERODIFF_PLANT(fp8_fnuz_read_as_fn,
                     ZERODIFF_PLANT(fp8_fn_read_as_fnuz, declared, declared & ~1), declared | 1);
  const bool e4m3 = format == kE4m3fn || format == kE4m3fnuz;
  const bool fnuz = format == kE4m3fnuz || format == kE5m2fnuz;
  const bool saturates = ZERODIFF_PLANT(
      fp8_overflow_to_nan, (switches & (kOverflowToNan | kOverflowToInfinity)) == 0, false);
  const uint32_t bias = (e4m3 ? 7 : 15) + (fnuz ? 1 : 0);
  // Half a step past the largest number is a tie, which goes down in e4m3fn and up elsewhere.
  const float tie = format == kE4m3fn ? 464.0F : format == kE4m3fnuz ? 248.0F : 61440.0F;
  const float below_tie = bits_as<float>(bits_as<uint32_t>(tie) - (format == kE4m3fn ? 0 : 1));
  Fp8Encoder encoder;
  encoder.largest = format == kE4m3fn ? 448.0F : format == kE4m3fnuz ? 240.0F : 57344.0F;
  encoder.limit = saturates ? bits_as<float>(0x7F800000U) : below_tie;
  encoder.smallest_normal = (128 - bias) << 23;
  encoder.dropped_bits = e4m3 ? 20 : 21;
  encoder.rebias = bits_as<float>(bias << 23);
  encoder.nan_code = fnuz ? 0x80 : 0x7F;
  encoder.overflow_code = switches & kOverflowToInfinity ? 0x7C : encoder.nan_code;
  encoder.negative_zero = ZERODIFF_PLANT(fp8_negzero_to_nan, !fnuz, true);
  encoder.chip_format = saturates ? format : -1;
  return encoder;
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
