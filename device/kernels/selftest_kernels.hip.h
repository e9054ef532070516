// Kernels of `zerodiff selftest`: the operations that all other kernels rest on, each alone.
//
// One thread an element, in blocks of kThreadsPerBlock (contract.h), unless stated otherwise; `n`
// is the number of elements. device/selftest/ launches them and knows what they must give.
#pragma once

#include "device/kernels/fp8_decoder.hip.h"
#include "device/kernels/lane_sum.hip.h"
#include "device/kernels/number_formats.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

__device__ __forceinline__ int64_t selftest_element() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// sqrt(a), a / b, fma(a, b, c), and a*b + c with two roundings.
ZERODIFF_KERNEL_BOUNDS(selftest_arithmetic, 256)
(View<const float> a, View<const float> b, View<const float> c, View<float> root,
 View<float> quotient, View<float> fused, View<float> separate, int32_t n) {
  const int64_t i = selftest_element();
  if (i >= n) return;
  const float x = a[i];
  const float y = b[i];
  const float z = c[i];
  root[i] = sqrtf(x);
  quotient[i] = x / y;
  fused[i] = fmaf(x, y, z);
  separate[i] = x * y + z;
}

// 16-bit codes as numbers, one at a time and from either half of a word.
ZERODIFF_KERNEL_BOUNDS(selftest_decode16, 256)
(View<const uint16_t> codes, View<float> bf16, View<float> bf16_low, View<float> bf16_high,
 View<float> fp16, View<float> fp16_low, View<float> fp16_high, int32_t n) {
  const int64_t i = selftest_element();
  if (i >= n) return;
  const uint16_t code = codes[i];
  const uint32_t low = static_cast<uint32_t>(code) | 0x3C000000U;
  const uint32_t high = static_cast<uint32_t>(code) << 16 | 0x3C00U;
  bf16[i] = BFloat16::decode(code);
  bf16_low[i] = BFloat16::decode_low(low);
  bf16_high[i] = BFloat16::decode_high(high);
  fp16[i] = Float16::decode(code);
  fp16_low[i] = Float16::decode_low(low);
  fp16_high[i] = Float16::decode_high(high);
}

// Numbers as 16-bit codes: alone, and as the lower half of a pair whose upper half is the negative.
ZERODIFF_KERNEL_BOUNDS(selftest_encode16, 256)
(View<const float> values, View<uint16_t> bf16, View<int32_t> bf16_pair, View<uint16_t> fp16,
 View<int32_t> fp16_pair, int32_t n) {
  const int64_t i = selftest_element();
  if (i >= n) return;
  const float value = values[i];
  bf16[i] = BFloat16::encode(value);
  bf16_pair[i] = static_cast<int32_t>(BFloat16::encode_pair(value, -value));
  fp16[i] = Float16::encode(value);
  fp16_pair[i] = static_cast<int32_t>(Float16::encode_pair(value, -value));
}

// The same with fp8; `format` and `switches` as in contract.h.
ZERODIFF_KERNEL_BOUNDS(selftest_encode8, 256)
(View<const float> values, View<uint8_t> codes, View<uint16_t> pairs, int32_t n, int32_t format,
 uint32_t switches) {
  const int64_t i = selftest_element();
  if (i >= n) return;
  const Fp8Encoder encoder = make_fp8_encoder(format, switches);
  const float value = values[i];
  codes[i] = static_cast<uint8_t>(encoder.encode(value));
  pairs[i] = static_cast<uint16_t>(encoder.encode_pair(value, -value));
}

// fp8 codes as numbers, four a thread: n of them, a multiple of four.
ZERODIFF_KERNEL_BOUNDS(selftest_decode8, 256)
(View<const int32_t> words, View<float> values, int32_t n, int32_t format) {
  const int64_t i = selftest_element();
  if (4 * i >= n) return;
  float numbers[4];
  make_fp8_decoder(format).decode4(static_cast<uint32_t>(words[i]), numbers);
  for (int32_t j = 0; j < 4; ++j) values[4 * i + j] = numbers[j];
}

// The canonical sums of `heads` rows of 128, 16 lanes a row, 16 rows a block; each lane stores its
// own copy: sums is [heads, 16].
ZERODIFF_KERNEL_BOUNDS(selftest_lane_sum, 256)
(View<const float> rows, View<float> sums, int32_t heads) {
  const HeadLane lane = head_lane();
  const int64_t head = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock + lane.row_in_tile;
  HeadSlice slice = {};
  if (head < heads) {
    for (int32_t i = 0; i < kLaneElements; ++i) {
      slice.e[i] = rows[head * kHeadElements + lane_element(lane) + i];
    }
  }
  const float sum = lane_sum128(slice);
  if (head < heads) sums[head * kLanesPerHead + lane.lane] = sum;
}

// What each thread gets from lane ^ mask and from lane `from`, for masks 1 to 31 and from 0 to 31,
// of the values `seed` + global thread: xored is [32, n] (row 0: the thread's own), taken is
// [32, n], and wide the 64-bit value of lane ^ 16. The last block is full: n is a multiple of 256.
ZERODIFF_KERNEL_BOUNDS(selftest_shuffle, 256)
(View<int32_t> xored, View<int32_t> taken, View<int64_t> wide, View<int32_t> wave, int32_t n,
 int32_t seed) {
  const int64_t i = selftest_element();
  const int32_t own = static_cast<int32_t>(i) + seed;
  for (int32_t k = 0; k < 32; ++k) {
    xored[int64_t{k} * n + i] = shfl_xor32(own, k);
    taken[int64_t{k} * n + i] = shfl32(own, k);
  }
  wide[i] = shfl_xor32(static_cast<int64_t>(own) << 32 | 0x5A5A, 16);
  if (i == 0) wave[0] = wave_size();
}

// Turns each block's values around, through static LDS and through dynamic LDS of 256 floats, with
// a barrier between. n is a multiple of 256.
ZERODIFF_KERNEL_BOUNDS(selftest_lds, 256)
(View<const float> values, View<float> reversed, View<float> reversed_again) {
  ZERODIFF_SHARED(float, fixed, 256);
  ZERODIFF_DYNAMIC_SHARED(float, sized);
  const int64_t i = selftest_element();
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  fixed[thread] = values[i];
  __syncthreads();
  const float turned = fixed[255 - thread];
  sized[thread] = turned;
  __syncthreads();
  reversed[i] = turned;
  reversed_again[i] = sized[255 - thread];
}

// One thread writes one byte `where` bytes from the start of the buffer: outside of it, so that a
// backend must notice.
ZERODIFF_KERNEL_BOUNDS(selftest_stray_write, 64)
(View<uint8_t> buffer, int64_t where) {
  if (threadIdx.x == 0) buffer[where] = 0x3C;
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device

// Their names, each as X(name).
#define ZERODIFF_SELFTEST_KERNELS(X) \
  X(selftest_arithmetic)             \
  X(selftest_decode16)               \
  X(selftest_decode8)                \
  X(selftest_encode16)               \
  X(selftest_encode8)                \
  X(selftest_lane_sum)               \
  X(selftest_lds)                    \
  X(selftest_shuffle)                \
  X(selftest_stray_write)
