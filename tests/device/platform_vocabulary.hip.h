// One kernel that uses every word of device/platform/platform.hip.h. The host runs it; hipcc and
// nvcc, where they are installed, must compile it.
#pragma once

#include "device/platform/platform.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {

__device__ __forceinline__ float sum_of_lanes(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value = value + shfl_xor32(value, mask);
  return value;
}

__device__ __forceinline__ float sum_of_tile(SharedView<float> tile, uint32_t count) {
  float sum = 0.0f;
  for (uint32_t i = 0; i < count; ++i) sum = fmaf(tile[i], 1.0f, sum);
  return sum;
}

// Rows of 8 bfloat16 codes, one a thread; the block has 64 threads. For each row:
//   reversed: the codes in reverse order, from row 1 on
//   numbers:  the sum over the block of the rows' sums, scaled; see the body for the rest
//   slots:    table + shift, plus step
//   bytes:    the low byte of the row number
ZERODIFF_KERNEL_BOUNDS(whole_vocabulary, 64)
(View<uint16_t> reversed, View<const uint16_t> codes, View<float> numbers, View<int64_t> slots,
 View<uint8_t> bytes, View<const int32_t> table, View<const float> absent, int32_t rows,
 int64_t shift, uint32_t step, float scale) {
  ZERODIFF_SHARED(float, partial, 2);
  ZERODIFF_DYNAMIC_SHARED(float, tile);
  const int64_t row = int64_t{blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)} *
                          (blockDim.x * blockDim.y * blockDim.z) +
                      threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const uint32_t thread = threadIdx.x;
  const bool live = row < rows && !absent;
  float sum = 0.0f;
  if (live) {
    const Vec16<uint16_t> in = load16(codes, row * 8);
    Vec16<uint16_t> out;
    for (int i = 0; i < 8; ++i) {
      sum = sum + bits_as<float>(uint32_t{in.e[i]} << 16) * scale;
      out.e[i] = in.e[7 - i];
    }
    store16(reversed + 8, row * 8, out);
  }
  tile[thread] = sum;
  const float wave_sum = sum_of_lanes(sum);
  if (thread % 32 == 0) partial[thread / 32] = wave_sum;
  __syncthreads();
  const float total = sum_of_tile(partial, 2);
  const float neighbour = tile[thread ^ 1];
  const float first = shfl32(sum, 0);
  if (!live) return;
  const float bounded = fminf(fmaxf(fabsf(neighbour), -1.0f), ldexpf(1.0f, 20));
  const float wave_is_known = wave_size() == 32 || wave_size() == 64 ? 0.0f : NAN;
  numbers[row] = isnan(wave_is_known) ? 0.0f : rintf(sqrtf(total * total) / 2.0f) + bounded + first;
  slots[row] = table[row] + shift;
  slots[row] += int64_t{step};
  bytes[row] = static_cast<uint8_t>(row);
}

}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
