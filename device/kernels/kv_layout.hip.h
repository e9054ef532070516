// Where elements lie in paged K and V caches and in the index cache (numerics.md section 8).
#pragma once

#include "device/kernels/head_lanes.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// Element 0 of a head of one page; K and V pages have the same size.
__device__ __forceinline__ int64_t page_head_start(int64_t slot, int32_t kv_head,
                                                   int32_t num_kv_heads) {
  const int64_t page = slot / kPageTokens;
  return (page * num_kv_heads + kv_head) * (kHeadElements * kPageTokens);
}

// K is [D/x][16][x]: the row's first granule, and the distance from one granule to the next.
template <class Code>
__device__ __forceinline__ int64_t k_head_start(int64_t slot, int32_t kv_head,
                                                int32_t num_kv_heads) {
  return page_head_start(slot, kv_head, num_kv_heads) + slot % kPageTokens * kGranule<Code>;
}
template <class Code>
inline constexpr int64_t kKGranuleStride = int64_t{kPageTokens} * kGranule<Code>;

// V is [16/x][D][x]: element 0 of the row; element d lies d*x further.
template <class Code>
__device__ __forceinline__ int64_t v_head_start(int64_t slot, int32_t kv_head,
                                                int32_t num_kv_heads) {
  const int64_t offset = slot % kPageTokens;
  return page_head_start(slot, kv_head, num_kv_heads) +
         offset / kGranule<Code> * (kHeadElements * kGranule<Code>)+offset % kGranule<Code>;
}

__device__ __forceinline__ int64_t index_row_start(int64_t slot) {
  return slot * kHeadElements;
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
