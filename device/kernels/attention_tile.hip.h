// The outer-product tile of scores and attention: a work-group multiplies rows that lie in LDS
// (query heads, or their softmax weights) with 128 columns that its threads hold (positions, or
// dims of V).
//
// Every sum is one chain of fma in ascending order of the inner index, as numerics.md sections 10
// and 13 want it; what runs side by side are rows and columns. A thread owns whole columns, so K
// and V go from memory to registers without a detour, each element once for all heads of a group; a
// row element is read by all threads at once, which LDS serves as a broadcast.
#pragma once

#include "device/kernels/attention_contract.h"
#include "device/kernels/head_lanes.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

inline constexpr int32_t kColumnsPerThread = kHeadElements / kTileThreads;
inline constexpr int32_t kInnerStep = 8;  // inner indices that a thread decodes at a time

// The i-th column of the calling thread: neighbouring threads have neighbouring columns.
__device__ __forceinline__ int32_t tile_column(int32_t i) {
  return static_cast<int32_t>(threadIdx.x) + i * kTileThreads;
}

template <int32_t kRows>
struct TileSums {
  float e[kRows][kColumnsPerThread];
};

// Inner indices k .. k + 7 of the thread's columns.
struct ColumnValues {
  float e[kColumnsPerThread][kInnerStep];
};

// One granule of 16 bytes for each column of the calling thread.
template <class Code>
struct Granules {
  Vec16<Code> e[kColumnsPerThread];
};

// Granules come in parts of 8 elements. Code j of part `part`; the loop over parts may stay a loop,
// since nothing here is indexed by it.
template <class Code>
inline constexpr int32_t kGranuleParts = 16 / sizeof(Code) / kInnerStep;

__device__ __forceinline__ uint16_t part_code(const Vec16<uint16_t>& granule, int32_t /*part*/,
                                              int32_t j) {
  return granule.e[j];
}
__device__ __forceinline__ uint8_t part_code(const Vec16<uint8_t>& granule, int32_t part,
                                             int32_t j) {
  return part == 0 ? granule.e[j] : granule.e[j + kInnerStep];
}

template <int32_t kRows>
__device__ __forceinline__ TileSums<kRows> zero_sums() {
  TileSums<kRows> sums;
  ZERODIFF_UNROLL
  for (int32_t row = 0; row < kRows; ++row) {
    ZERODIFF_UNROLL
    for (int32_t i = 0; i < kColumnsPerThread; ++i) sums.e[row][i] = 0.0F;
  }
  return sums;
}

// A tile need not be full: rows past `live_rows` may be left out, a quarter of the tile at a time.
template <int32_t kRows>
inline constexpr int32_t kRowStep = kRows / 4;

// Goes on with the sums of rows and columns over inner indices k .. k + 7. `rows` is [kRows][128].
template <int32_t kRows>
__device__ __forceinline__ void add_products(TileSums<kRows>& sums, SharedView<const float> rows,
                                             int32_t live_rows, int32_t k,
                                             const ColumnValues& columns) {
  ZERODIFF_UNROLL
  for (int32_t row = 0; row < kRows; ++row) {
    if (row % kRowStep<kRows> == 0 && row >= live_rows) return;
    ZERODIFF_UNROLL
    for (int32_t quad = 0; quad < kInnerStep; quad += 4) {
      const Vec16<float> factors = load16(rows, row * kHeadElements + k + quad);
      ZERODIFF_UNROLL
      for (int32_t j = 0; j < 4; ++j) {
        ZERODIFF_UNROLL
        for (int32_t i = 0; i < kColumnsPerThread; ++i) {
          sums.e[row][i] = fmaf(factors.e[j], columns.e[i][quad + j], sums.e[row][i]);
        }
      }
    }
  }
}

// The same over the first `count` of them only. A product with zero in their place would not do: it
// turns a sum of -0 into +0.
template <int32_t kRows>
__device__ __forceinline__ void add_first_products(TileSums<kRows>& sums,
                                                   SharedView<const float> rows, int32_t live_rows,
                                                   int32_t k, const ColumnValues& columns,
                                                   int32_t count) {
  ZERODIFF_UNROLL
  for (int32_t row = 0; row < kRows; ++row) {
    if (row % kRowStep<kRows> == 0 && row >= live_rows) return;
    ZERODIFF_UNROLL
    for (int32_t j = 0; j < kInnerStep; ++j) {
      if (j >= count) continue;
      const float factor = rows[row * kHeadElements + k + j];
      ZERODIFF_UNROLL
      for (int32_t i = 0; i < kColumnsPerThread; ++i) {
        sums.e[row][i] = fmaf(factor, columns.e[i][j], sums.e[row][i]);
      }
    }
  }
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
