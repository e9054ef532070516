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
  HeadSlice gain = decode_slice<Row>(load_slice(weight, lane, true));
  for (int32_t i = 0; i < kLaneElements; ++i) gain.e[i] = 1.0F + gain.e[i];
  return gain;
}

// y, not rounded to the model dtype. All lanes of the group must call.
__device__ __forceinline__ HeadSlice gemma_norm(const HeadSlice& x, const HeadSlice& gain,
                                                float eps) {
  HeadSlice squares;
  for (int32_t i = 0; i < kLaneElements; ++i) squares.e[i] = x.e[i] * x.e[i];
  const float mean = lane_sum128(squares) * 0x1p-7F;
  const float r = 1.0F / sqrtf(mean + eps);
  HeadSlice y;
  for (int32_t i = 0; i < kLaneElements; ++i) y.e[i] = (x.e[i] * r) * gain.e[i];
  return y;
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
