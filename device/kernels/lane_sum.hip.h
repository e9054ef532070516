// The canonical sum of 128 values (numerics.md section 0) over the lanes of head_lanes.hip.h.
#pragma once

#include "device/kernels/head_lanes.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// The contract has 32 partial sums of 4 values and folds them by 16, 8, 4, 2, 1. Here a lane holds
// two neighbouring partials: the folds by 16, 8, 4, 2 are those of lanes by 8, 4, 2, 1, and the
// last one joins the lane's own two. Addition commutes, so all 16 lanes end with the same bits.
__device__ __forceinline__ float lane_sum128(const HeadSlice& v) {
  float low = ((v.e[0] + v.e[1]) + v.e[2]) + v.e[3];
  float high = ((v.e[4] + v.e[5]) + v.e[6]) + v.e[7];
  for (int32_t mask = ZERODIFF_PLANT(wave_width, 8, 16); mask > 0; mask /= 2) {
    low = low + shfl_xor32(low, mask);
    high = high + shfl_xor32(high, mask);
  }
  return low + high;
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
