// K and V of one block of a sparse block table, in the granules of 16 bytes that the paged caches
// are made of (numerics.md sections 6, 8 and 12).
#pragma once

#include "device/kernels/attention_tile.hip.h"
#include "device/kernels/kv_layout.hip.h"
#include "device/kernels/number_formats.hip.h"
#include "device/kernels/slots.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

template <class Code>
struct PagedKv {
  View<const Code> k_cache;
  View<const Code> v_cache;   // with block_contiguous it starts 8 pages later
  View<const float> k_scale;  // [1], or [nkv][scale_stride] by slot before any rebase
  View<const float> v_scale;  // both are unused by 16-bit caches
  View<const int32_t> table;  // sparse_block_table
  int64_t scale_stride;       // 0: one scale
  int32_t num_kv_heads;
  int32_t kv_format;
  uint32_t switches;
};

struct TableBlock {
  int64_t first_page;  // its first entry in the table
  int32_t kv_head;
  int32_t
      tokens;  // live ones, 1 to 128; nothing else is ever loaded, but for the rest of a granule
};

// Element 0 of the page, for this kv head: the table's ids have the head folded in.
template <class Code>
__device__ __forceinline__ int64_t page_start(const PagedKv<Code>& kv, const TableBlock& block,
                                              int32_t page) {
  const int32_t folded = kv.table[block.first_page + page];
  return int64_t{folded} * (kHeadElements * kPageTokens);
}

template <class Code>
__device__ __forceinline__ float token_scale(const PagedKv<Code>& kv, View<const float> scales,
                                             const TableBlock& block, int32_t position) {
  if (kv.scale_stride == 0) {
    const float scale = scales[0];
    return scale;
  }
  const int32_t folded = kv.table[block.first_page + position / kPageTokens];
  const int64_t page = folded / kv.num_kv_heads;
  const int64_t slot = page * kPageTokens + position % kPageTokens;
  const int64_t mapped = kv.switches & kBlockContiguous ? slot_before_rebase(slot) : slot;
  const float scale = scales[block.kv_head * kv.scale_stride + mapped];
  return scale;
}

// k~ or v~ of a decoded element. The elements of 16-bit caches are what they are.
template <class Row, class Code>
__device__ __forceinline__ float dequantised(float element, float scale) {
  if constexpr (sizeof(Code) == sizeof(uint16_t)) {
    return element;
  } else {
    const float factor = ZERODIFF_PLANT(scale_double_applied, scale, scale * scale);
    return Row::decode(Row::encode(element * factor));
  }
}

// The positions of a block that the calling thread owns as columns of Q K^T.
struct KColumns {
  int64_t start[kColumnsPerThread];
  float scale[kColumnsPerThread];
  bool live[kColumnsPerThread];
  bool any_live;
};

template <class Code>
__device__ __forceinline__ KColumns k_columns(const PagedKv<Code>& kv, const TableBlock& block) {
  KColumns columns;
  columns.any_live = false;
  ZERODIFF_UNROLL
  for (int32_t i = 0; i < kColumnsPerThread; ++i) {
    const int32_t position = tile_column(i);
    columns.live[i] = position < block.tokens;
    columns.any_live = columns.any_live || columns.live[i];
    columns.start[i] = 0;
    columns.scale[i] = 0.0F;
    if (!columns.live[i]) continue;
    columns.start[i] =
        page_start(kv, block, position / kPageTokens) + position % kPageTokens * kGranule<Code>;
    if constexpr (sizeof(Code) == 1) {
      columns.scale[i] = token_scale(kv, kv.k_scale, block, position);
    }
  }
  return columns;
}

// Dims g*x .. of the thread's positions; zeros for dead ones.
template <class Code>
__device__ __forceinline__ Granules load_k(const PagedKv<Code>& kv, const KColumns& columns,
                                           int32_t g) {
  Granules granules = {};
  ZERODIFF_UNROLL
  for (int32_t i = 0; i < kColumnsPerThread; ++i) {
    if (columns.live[i]) {
      granules.e[i] =
          bits_as<Granule>(load16(kv.k_cache, columns.start[i] + g * kKGranuleStride<Code>));
    }
  }
  return granules;
}

// The pages of a block, for all threads. A barrier must follow.
template <class Code>
__device__ __forceinline__ void stage_pages(const PagedKv<Code>& kv, const TableBlock& block,
                                            SharedView<int32_t> pages) {
  const int32_t page = static_cast<int32_t>(threadIdx.x);
  if (page * kPageTokens < block.tokens) {
    const int32_t folded = kv.table[block.first_page + page];
    pages[page] = folded;
  }
}

// Tokens g*x .. of the thread's dims, at least one of them live.
template <class Code>
__device__ __forceinline__ Granules load_v(const PagedKv<Code>& kv, SharedView<const int32_t> pages,
                                           int32_t g) {
  const int32_t token = g * kGranule<Code>;
  const int32_t folded = pages[token / kPageTokens];
  const int64_t start =
      int64_t{folded} * (kHeadElements * kPageTokens) + token % kPageTokens * kHeadElements;
  Granules granules;
  ZERODIFF_UNROLL
  for (int32_t i = 0; i < kColumnsPerThread; ++i) {
    granules.e[i] = bits_as<Granule>(load16(kv.v_cache, start + tile_column(i) * kGranule<Code>));
  }
  return granules;
}

// The scale of each live token's V, for all threads. A barrier must follow.
template <class Code>
__device__ __forceinline__ void stage_v_scales(const PagedKv<Code>& kv, const TableBlock& block,
                                               SharedView<float> v_scales) {
  if constexpr (sizeof(Code) == 1) {
    ZERODIFF_UNROLL
    for (int32_t i = 0; i < kColumnsPerThread; ++i) {
      const int32_t position = tile_column(i);
      const bool live = position < block.tokens;
      const float scale = live ? token_scale(kv, kv.v_scale, block, position) : 0.0F;
      v_scales[position] = ZERODIFF_PLANT(scale_ignored_read, scale, 1.0F);
    }
  }
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
