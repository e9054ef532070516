// Index K of one block on its way to the threads that own its positions.
//
// The index cache is position-major, so a thread that read its own position would touch a memory
// line of its own with every load. Instead 128 bytes of each position at a time go through LDS: in
// by neighbouring threads side by side, out by the thread that owns the position. The granules of a
// position are swizzled, so that neither way has bank conflicts. In LDS a granule is two 64-bit
// words, whatever its elements are.
#pragma once

#include "device/kernels/attention_tile.hip.h"
#include "device/kernels/kv_layout.hip.h"
#include "device/kernels/number_formats.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

inline constexpr int32_t kIndexGranules = 8;  // of a position in LDS at a time
inline constexpr int32_t kIndexTileWords = kBlockTokens * kIndexGranules * 2;

// The first word of granule g of a position.
__device__ __forceinline__ int32_t index_tile_word(int32_t position, int32_t g) {
  return (position * kIndexGranules + (g ^ (position % kIndexGranules))) * 2;
}

// Dims first_dim .. of the first `tokens` positions of a block that starts at element `start` of
// the cache. Other positions keep what they have: it is never used. A barrier must follow.
template <class Code>
__device__ __forceinline__ void stage_index_k(View<const Code> index_cache, int64_t start,
                                              int32_t first_dim, int32_t tokens,
                                              SharedView<int64_t> tile) {
  const int32_t granules = tokens * kIndexGranules;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < granules; i += kTileThreads) {
    const int32_t position = i / kIndexGranules;
    const int32_t g = i % kIndexGranules;
    const Vec16<Code> codes =
        load16(index_cache, start + index_row_start(position) + first_dim + g * kGranule<Code>);
    store16(tile, index_tile_word(position, g), bits_as<Vec16<int64_t>>(codes));
  }
}

// Goes on with the dots of every row and of the thread's positions over the dims in the tile.
// `query` is [kRows][128]. Sums of positions >= `tokens` have no meaning.
template <class Row, class Code, int32_t kRows>
__device__ __forceinline__ void add_index_products(TileSums<kRows>& sums,
                                                   SharedView<const float> query, int32_t live_rows,
                                                   int32_t first_dim,
                                                   SharedView<const int64_t> tile, int32_t tokens,
                                                   const Fp8Decoder& decoder) {
  constexpr int32_t kParts = kGranuleParts<Code>;
  Granules granules = {};
  for (int32_t step = 0; step < kIndexGranules * kParts; ++step) {
    const int32_t part = step % kParts;
    ColumnValues values;
    ZERODIFF_UNROLL
    for (int32_t i = 0; i < kColumnsPerThread; ++i) {
      const int32_t position = tile_column(i);
      if (part == 0 && position < tokens) {
        granules.e[i] = bits_as<Granule>(load16(tile, index_tile_word(position, step / kParts)));
      }
      decode_part<Row, Code>(decoder, granules.e[i], part, values.e[i]);
    }
    add_products(sums, query, live_rows, first_dim + step * kInnerStep, values);
  }
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
