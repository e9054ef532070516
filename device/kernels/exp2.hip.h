// EXP2 of the contract (numerics.md section 13): one polynomial, so that all chips agree.
#pragma once

#include "device/kernels/plant.hip.h"
#include "device/platform/platform.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// 2^t within 0.95 ulp for t <= 0; +0 below -125; NaN for NaN.
__device__ __forceinline__ float contract_exp2(float t) {
  const float bounded = t >= -125.0F ? t : -125.0F;  // NaN too: it must not become an integer
  const float n = rintf(bounded);
  const float f = bounded - n;
  float y = 0x1.41d334p-13F;
  y = fmaf(y, f, 0x1.5f456ap-10F);
  y = fmaf(y, f, 0x1.3b2dbcp-7F);
  y = fmaf(y, f, 0x1.c6aed4p-5F);
  y = fmaf(y, f, 0x1.ebfbdap-3F);
  y = fmaf(y, f, 0x1.62e43p-1F);
  y = fmaf(y, f, 1.0F);
  // Both factors and the product are normal numbers, so this is ldexp(y, n).
  const uint32_t exponent = static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23;
  const float power = y * bits_as<float>(exponent);
  if (t != t) return t;
  return t < -125.0F ? 0.0F : power;
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
