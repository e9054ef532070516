// The kernel vocabulary for nvcc. Included through platform.hip.h, which documents it.
//
// The HIP names in use are CUDA's own, but for the shuffles; HIP's headers stay out.
#pragma once

#include "device/platform/platform_gpu.h"

namespace zerodiff::device {
inline namespace cuda {

// All 32 lanes call (platform.hip.h), so the mask is full.
template <class T>
__device__ __forceinline__ T shfl_xor32(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask, 32);
}

template <class T>
__device__ __forceinline__ T shfl32(T value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane, 32);
}

__device__ __forceinline__ int wave_size() {
  return warpSize;
}

}  // namespace cuda
}  // namespace zerodiff::device
