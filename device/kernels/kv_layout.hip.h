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
  const int64_t head = page * num_kv_heads + ZERODIFF_PLANT(kv_head_offset_missing, kv_head, 0);
  const int64_t start = head * (kHeadElements * kPageTokens);
  return ZERODIFF_PLANT(slot_int32_overflow, start, planted::wrapped_to_32_bits(start));
}

// K is [D/x][16][x]: the row's first granule, and the distance from one granule to the next.
template <class Code>
__device__ __forceinline__ int64_t k_head_start(int64_t slot, int32_t kv_head,
                                                int32_t num_kv_heads) {
  return page_head_start(slot, kv_head, num_kv_heads) + slot % kPageTokens * kGranule<Code>;
}
template <class Code>
inline constexpr int64_t kKGranuleStride = int64_t{kPageTokens} * kGranule<Code>;

// Stores this lane's elements of a K head. All lanes of the group must call; only `stored` heads
// are written.
template <class Code>
__device__ __forceinline__ void store_k(View<Code> k_cache, int64_t slot, int32_t kv_head,
                                        int32_t num_kv_heads, const CodeSlice<Code>& codes,
                                        HeadLane lane, bool stored) {
  const int64_t granule = k_head_start<Code>(slot, kv_head, num_kv_heads) +
                          lane_granule<Code>(lane) * kKGranuleStride<Code>;
  const int64_t place = ZERODIFF_PLANT(
      kv_writer_flat_reader_shuffle,
      ZERODIFF_PLANT(kv_shuffle_x_mismatch, granule, planted::k_place_x16(granule, slot, lane)),
      planted::flat_place(slot, kv_head, num_kv_heads, lane));
  store_slice(k_cache + place, codes, lane, stored);
}

// V is [16/x][D][x]: element 0 of the row; element d lies d*x further.
template <class Code>
__device__ __forceinline__ int64_t v_head_start(int64_t slot, int32_t kv_head,
                                                int32_t num_kv_heads) {
  constexpr int32_t x = kGranule<Code>;
  const int64_t offset = slot % kPageTokens;
  return page_head_start(slot, kv_head, num_kv_heads) +
         ZERODIFF_PLANT(kv_v_layout, offset / x * (kHeadElements * x) + offset % x, offset * x);
}

__device__ __forceinline__ int64_t index_row_start(int64_t slot) {
  return slot * kHeadElements;
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
