// The four fp8 formats as numbers (numerics.md section 1); number_formats.hip.h encodes them.
#pragma once

#include "device/kernels/contract.h"
#include "device/kernels/plant.hip.h"
#include "device/platform/platform.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

struct Fp8Decoder {
  uint32_t shift;          // from the code's exponent and mantissa to those of binary32
  float unit;              // what corrects the exponent then; exact, of subnormals too
  uint32_t first_special;  // magnitudes from here on are infinity or NaN
  uint32_t special_code;   // one more code that is NaN; past 0xFF if there is none
  uint32_t special_bits;   // make binary32 infinity or NaN of the shifted magnitude

  __device__ __forceinline__ float decode(uint8_t code) const {
    const uint32_t magnitude = code & 0x7FU;
    const uint32_t shifted = magnitude << shift;
    const bool special = code == special_code || magnitude >= first_special;
    const uint32_t finite = bits_as<uint32_t>(bits_as<float>(shifted) * unit);
    const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
    return bits_as<float>(sign | (special ? shifted | special_bits : finite));
  }
};

// `format` is kE4m3fn ... kE5m2fnuz.
__device__ __forceinline__ Fp8Decoder make_fp8_decoder(int32_t format) {
  const bool e4m3 = format == kE4m3fn || format == kE4m3fnuz;
  const bool fnuz = format == kE4m3fnuz || format == kE5m2fnuz;
  Fp8Decoder decoder;
  decoder.shift = e4m3 ? 20 : 21;
  decoder.unit = (e4m3 ? 0x1p120F : 0x1p112F) * (fnuz ? 0.5F : 1.0F);
  decoder.first_special = fnuz ? 0x80 : e4m3 ? 0x7F : 0x7C;
  decoder.special_code = fnuz ? 0x80 : 0x100;
  decoder.special_bits = fnuz ? 0x7FC00000 : 0x7F800000;
  return decoder;
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
