// V rows on their way to a cache that has the tokens of a page innermost.
//
// One row alone would go out in single elements 16 bytes apart. So the 16 rows of a work-group meet
// in LDS: where x of them fill x neighbouring places of a page, 16-byte granules are written, and
// elsewhere neighbouring lanes write neighbouring tokens, so that what can coalesce does.
#pragma once

#include "device/kernels/kv_layout.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// Elements from one row to the next: a multiple of 16 bytes that is an odd number of them, against
// bank conflicts.
template <class Code>
inline constexpr int32_t kTilePitch = kHeadElements + kGranule<Code>;

template <class Code>
struct ValueTile {
  SharedView<Code> rows;      // [16][kTilePitch]
  SharedView<int64_t> slots;  // [16]: of the rows, negative: not stored
};

// Threads that share a run of x rows, which may fill whole granules.
template <class Code>
inline constexpr int32_t kRunThreads = kThreadsPerBlock* kGranule<Code> / kRowsPerBlock;

// What one thread writes of each head: part of a run.
struct TileShare {
  int32_t first_row;  // of the run
  int32_t worker;     // among the threads of the run
  bool whole;         // the run fills granules
};

// Tells the slots of the rows to the work-group. All of its threads must call.
template <class Code>
__device__ __forceinline__ TileShare share_tile(const ValueTile<Code>& tile, HeadLane lane,
                                                int64_t slot) {
  constexpr int32_t kRun = kGranule<Code>;
  if (lane.lane == 0) {
    tile.slots[lane.row_in_tile] =
        ZERODIFF_PLANT(kv_write_dropped, slot, lane.row_in_tile < 3 ? slot : -1);
  }
  __syncthreads();
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  TileShare share;
  share.first_row = thread / kRunThreads<Code> * kRun;
  share.worker = thread % kRunThreads<Code>;
  const int64_t first_slot = tile.slots[share.first_row];
  share.whole = first_slot >= 0 && first_slot % kRun == 0;
  for (int32_t i = 1; i < kRun; ++i) {
    const int64_t next_slot = tile.slots[share.first_row + i];
    share.whole = share.whole && next_slot == first_slot + i;
  }
  share.whole = ZERODIFF_PLANT(kv_v_layout, share.whole, false);
  return share;
}

// One granule a thread.
template <class Code>
__device__ __forceinline__ void store_whole_run(const ValueTile<Code>& tile, TileShare share,
                                                View<Code> v_cache, int32_t kv_head,
                                                int32_t num_kv_heads) {
  const int32_t d = share.worker;
  if (d >= kHeadElements) return;
  const int64_t slot = tile.slots[share.first_row];
  const int64_t start = v_head_start<Code>(slot, kv_head, num_kv_heads);
  Vec16<Code> granule;
  for (int32_t i = 0; i < kGranule<Code>; ++i) {
    granule.e[i] =
        tile.rows[(share.first_row + i) * kTilePitch<Code> + d + ZERODIFF_PLANT(uninit_read, 0, 1)];
  }
  store16(v_cache, start + d * kGranule<Code>, granule);
}

// Neighbouring threads take neighbouring rows.
template <class Code>
__device__ __forceinline__ void store_scattered_run(const ValueTile<Code>& tile, TileShare share,
                                                    View<Code> v_cache, int32_t kv_head,
                                                    int32_t num_kv_heads) {
  constexpr int32_t kRun = kGranule<Code>;
  constexpr int32_t kStep = kRunThreads<Code> / kRun;
  const int32_t row = share.first_row + share.worker % kRun;
  const int64_t slot = tile.slots[row];
  if (slot < 0) return;
  const int32_t first_d = share.worker / kRun;
  const View<Code> place = v_cache + v_head_start<Code>(slot, kv_head, num_kv_heads);
  for (int32_t i = 0; i < kHeadElements / kStep; ++i) {
    const int32_t d = first_d + i * kStep;
    const Code code = tile.rows[row * kTilePitch<Code> + d];
    place[ZERODIFF_PLANT(kv_v_layout, d * kRun, planted::k_order(d, kRun))] = code;
  }
}

// Stores one V head of the 16 rows, of which this lane holds `codes`. All threads must call.
template <class Code>
__device__ __forceinline__ void store_values(const ValueTile<Code>& tile, TileShare share,
                                             const CodeSlice<Code>& codes, HeadLane lane,
                                             View<Code> v_cache, int32_t kv_head,
                                             int32_t num_kv_heads) {
  store_slice(tile.rows + (lane.row_in_tile * kTilePitch<Code> + lane_element(lane)), codes, lane,
              true);
  ZERODIFF_PLANT(race_missing_sync, __syncthreads(), void());
  if (share.whole) {
    store_whole_run(tile, share, v_cache, kv_head, num_kv_heads);
  } else {
    store_scattered_run(tile, share, v_cache, kv_head, num_kv_heads);
  }
  __syncthreads();
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
