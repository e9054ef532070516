// The four fp8 formats as numbers (numerics.md section 1); number_formats.hip.h encodes them.
#pragma once

#include "device/kernels/contract.h"
#include "device/kernels/plant.hip.h"
#include "device/platform/platform.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// One fp8 format. A code's exponent and mantissa, moved to those of binary32, are the number but for
// a power of two; that product is exact, of subnormals too.
struct Fp8Decoder {
  uint32_t shift;            // from the top of a word to exponent and mantissa
  uint32_t mask;             // of sign, exponent and mantissa there
  float unit;                // the power of two
  uint32_t infinity_or_nan;  // makes binary32 infinity or NaN of the moved bits of such a code
  // Of four codes: (magnitudes + special_step) has, once turned around by special_flip, the top bit
  // of a byte set where its code is infinity or NaN; with special_sign = 0 only negative ones count.
  uint32_t special_step;
  uint32_t special_flip;
  uint32_t special_sign;

  // The top bit of each byte whose code is infinity or NaN.
  __device__ __forceinline__ uint32_t specials(uint32_t codes) const {
    const uint32_t sums = (codes & 0x7F7F7F7F) + special_step;
    return (sums ^ special_flip) & (codes | special_sign) & 0x80808080;
  }

  // Code i of four as binary32 bits, before `unit` counts.
  __device__ __forceinline__ uint32_t moved(uint32_t codes, int32_t i) const {
    const int32_t top = static_cast<int32_t>(codes << (24 - 8 * i));
    return static_cast<uint32_t>(top >> shift) & mask;
  }

  // Four codes, the first in the lowest byte.
  __device__ __forceinline__ void decode4(uint32_t codes, float (&values)[4]) const {
    ZERODIFF_UNROLL
    for (int32_t i = 0; i < 4; ++i) values[i] = bits_as<float>(moved(codes, i)) * unit;
    const uint32_t special = specials(codes);
    if (ZERODIFF_PLANT(fp8_nan_decodes_finite, special == 0, true)) return;
    ZERODIFF_UNROLL
    for (int32_t i = 0; i < 4; ++i) {
      if ((special >> (8 * i) & 0x80) != 0) {
        values[i] = bits_as<float>(moved(codes, i) | infinity_or_nan);
      }
    }
  }
};

// `format` is kE4m3fn ... kE5m2fnuz.
__device__ __forceinline__ Fp8Decoder make_fp8_decoder(int32_t format) {
  const bool e4m3 = format == kE4m3fn || format == kE4m3fnuz;
  const bool fnuz = format == kE4m3fnuz || format == kE5m2fnuz;
  Fp8Decoder decoder;
  decoder.shift = e4m3 ? 4 : 3;
  decoder.mask = e4m3 ? 0x87F00000 : 0x8FE00000;
  decoder.unit = (e4m3 ? 0x1p120F : 0x1p112F) * (fnuz ? 0.5F : 1.0F);
  decoder.infinity_or_nan = fnuz ? 0x7FC00000 : 0x7F800000;
  // The one NaN of fnuz is -0; magnitudes from 0x7F, or 0x7C, on are special elsewhere.
  decoder.special_step = fnuz ? 0x7F7F7F7F : e4m3 ? 0x01010101 : 0x04040404;
  decoder.special_flip = fnuz ? 0xFFFFFFFF : 0;
  decoder.special_sign = fnuz ? 0 : 0xFFFFFFFF;
  return decoder;
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
