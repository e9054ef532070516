// Gemma RMSNorm of one head (numerics.md section 3).
#pragma once

#include "device/kernels/lane_sum.hip.h"
#include "device/kernels/number_formats.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// 1 + w for this lane's elements of a weight [128] of the model dtype.
template <class Row>
__device__ __forceinline__ HeadSlice load_norm_gain(View<const uint16_t> weight, HeadLane lane) {
  HeadSlice gain = decode_slice<Row>(load_slice(weight + lane_element(lane), true));
  for (int32_t i = 0; i < kLaneElements; ++i) {
    const float w =
        ZERODIFF_PLANT(norm_weight_truncated, gain.e[i], planted::as_bfloat16(gain.e[i]));
    gain.e[i] = ZERODIFF_PLANT(
        norm_gemma_offset_missing,
        ZERODIFF_PLANT(norm_gemma_offset_bf16, 1.0F + w, planted::as_bfloat16(1.0F + w)), w);
  }
  return gain;
}

// y, not rounded to the model dtype. All lanes of the group must call.
__device__ __forceinline__ HeadSlice gemma_norm(const HeadSlice& x, const HeadSlice& gain,
                                                float eps) {
  HeadSlice squares;
  for (int32_t i = 0; i < kLaneElements; ++i) squares.e[i] = x.e[i] * x.e[i];
  const float mean = lane_sum128(squares) * 0x1p-7F;
  const float r = 1.0F / ZERODIFF_PLANT(norm_eps_placement, sqrtf(mean + eps), sqrtf(mean) + eps);
  HeadSlice y;
  for (int32_t i = 0; i < kLaneElements; ++i) {
    const float normed =
        ZERODIFF_PLANT(norm_rounding_point, x.e[i] * r, planted::as_bfloat16(x.e[i] * r));
    y.e[i] = normed * gain.e[i];
  }
  return y;
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
