// The kernel vocabulary for hipcc. Included through platform.hip.h, which documents it.
#pragma once

#include <hip/hip_runtime.h>

#include "device/platform/platform_gpu.h"

namespace zerodiff::device {
inline namespace hip {

// On a wave of 64 the width of 32 makes two independent groups.
template <class T>
__device__ __forceinline__ T shfl_xor32(T value, int mask) {
  return __shfl_xor(value, mask, 32);
}

template <class T>
__device__ __forceinline__ T shfl32(T value, int lane) {
  return __shfl(value, lane, 32);
}

__device__ __forceinline__ int wave_size() {
  return warpSize;
}

}  // namespace hip
}  // namespace zerodiff::device
