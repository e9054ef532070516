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
#include "device/kernels/fp8_decoder.hip.h"
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

// A granule of 16 bytes for each column of the calling thread. It stays in whole words until its
// elements are needed: taking it apart would wait for the load.
using Granule = Vec16<uint32_t>;
struct Granules {
  Granule e[kColumnsPerThread];
};

// Granules come in parts of 8 elements. Nothing is indexed by `part`, so that a loop over parts may
// stay a loop.
template <class Code>
inline constexpr int32_t kGranuleParts = 16 / sizeof(Code) / kInnerStep;

// The elements of a part as numbers; fp8 at unit scale.
template <class Row, class Code>
__device__ __forceinline__ void decode_part(const Fp8Decoder& decoder, const Granule& granule,
                                            int32_t part, float (&values)[kInnerStep]) {
  if constexpr (sizeof(Code) == sizeof(uint16_t)) {
    ZERODIFF_UNROLL
    for (int32_t j = 0; j < kInnerStep; ++j) {
      values[j] = Row::decode(static_cast<uint16_t>(granule.e[j / 2] >> (j % 2 * 16)));
    }
  } else {
    ZERODIFF_UNROLL
    for (int32_t half = 0; half < 2; ++half) {
      const uint32_t low = granule.e[half];
      const uint32_t high = granule.e[half + 2];
      float decoded[4];
      decoder.decode4(part == 0 ? low : high, decoded);
      ZERODIFF_UNROLL
      for (int32_t j = 0; j < 4; ++j) values[half * 4 + j] = decoded[j];
    }
  }
}

// A decoded part into an array of rows in LDS.
__device__ __forceinline__ void store_part(SharedView<float> rows, int32_t first,
                                           const float (&values)[kInnerStep]) {
  ZERODIFF_UNROLL
  for (int32_t half = 0; half < kInnerStep; half += 4) {
    Vec16<float> quad;
    ZERODIFF_UNROLL
    for (int32_t j = 0; j < 4; ++j) quad.e[j] = values[half + j];
    store16(rows, first + half, quad);
  }
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

// Four inner indices from k + quad on, for rows row .. row + kCount - 1. The sums of several rows
// and columns take turns, since each has to wait for its last product.
template <int32_t kCount, int32_t kRows>
__device__ __forceinline__ void add_row_products(TileSums<kRows>& sums,
                                                 SharedView<const float> rows, int32_t row,
                                                 int32_t k, const ColumnValues& columns,
                                                 int32_t quad) {
  Vec16<float> factors[kCount];
  ZERODIFF_UNROLL
  for (int32_t r = 0; r < kCount; ++r) {
    factors[r] = load16(rows, (row + r) * kHeadElements + k + quad);
  }
  ZERODIFF_UNROLL
  for (int32_t j = 0; j < 4; ++j) {
    ZERODIFF_UNROLL
    for (int32_t r = 0; r < kCount; ++r) {
      ZERODIFF_UNROLL
      for (int32_t i = 0; i < kColumnsPerThread; ++i) {
        sums.e[row + r][i] = fmaf(factors[r].e[j], columns.e[i][quad + j], sums.e[row + r][i]);
      }
    }
  }
}

// A tile need not be full: rows past `live_rows` may be left out, a quarter of the tile at a time.
template <int32_t kRows>
inline constexpr int32_t kRowStep = kRows / 4;

// The rows from kRow on. (A loop that ends early would not be unrolled by every compiler.)
template <int32_t kRow, int32_t kRows>
__device__ __forceinline__ void add_live_products(TileSums<kRows>& sums,
                                                  SharedView<const float> rows, int32_t live_rows,
                                                  int32_t k, const ColumnValues& columns) {
  if constexpr (kRow < kRows) {
    if (kRow >= live_rows) return;
    add_row_products<kRowStep<kRows>>(sums, rows, kRow, k, columns, 0);
    add_row_products<kRowStep<kRows>>(sums, rows, kRow, k, columns, 4);
    add_live_products<kRow + kRowStep<kRows>>(sums, rows, live_rows, k, columns);
  }
}

// Goes on with the sums of rows and columns over inner indices k .. k + 7. `rows` is [kRows][128].
// A full tile is one piece of code without branches.
template <int32_t kRows>
__device__ __forceinline__ void add_products(TileSums<kRows>& sums, SharedView<const float> rows,
                                             int32_t live_rows, int32_t k,
                                             const ColumnValues& columns) {
  if (live_rows == kRows) {
    ZERODIFF_UNROLL
    for (int32_t row = 0; row < kRows; row += 4) {
      add_row_products<4>(sums, rows, row, k, columns, 0);
      add_row_products<4>(sums, rows, row, k, columns, 4);
    }
    return;
  }
  add_live_products<0>(sums, rows, live_rows, k, columns);
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
    if (row >= live_rows) continue;
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
