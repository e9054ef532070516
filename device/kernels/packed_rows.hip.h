// The packed rows of a call, and how work-groups divide them.
#pragma once

#include "device/kernels/head_lanes.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// The packed row [q: nq | k: nkv | v: nkv | index_q: niq | index_k: 1], counted in heads.
struct PackedRow {
  int32_t first_k;
  int32_t first_v;
  int32_t first_index_q;
  int32_t index_k;
  int64_t pitch;  // elements from one row to the next
};

__device__ __forceinline__ PackedRow packed_row(int32_t num_heads, int32_t num_kv_heads,
                                                int32_t num_index_heads) {
  PackedRow row;
  row.first_k = num_heads;
  row.first_v = num_heads + num_kv_heads;
  row.first_index_q = num_heads + 2 * num_kv_heads;
  row.index_k = row.first_index_q + num_index_heads;
  const int32_t heads =
      ZERODIFF_PLANT(qkv_row_pitch_without_index, row.index_k + 1, row.first_index_q);
  row.pitch = static_cast<int64_t>(heads) * kHeadElements;
  return row;
}

// The row that this lane works on, head by head.
struct RowState {
  HeadLane lane;
  int64_t row;   // of the packed tensor
  bool present;  // otherwise the lane only takes part in shuffles and barriers
};

__device__ __forceinline__ RowState row_state(int32_t num_rows) {
  RowState state;
  state.lane = head_lane();
  state.row = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock + state.lane.row_in_tile;
  state.present = state.row < num_rows;
  return state;
}

// The row's entry of a [rows] tensor.
__device__ __forceinline__ int64_t load_or(View<const int64_t> entries, const RowState& state,
                                           int64_t otherwise) {
  if (!state.present) return otherwise;
  const int64_t entry = entries[state.row];
  return entry;
}

// A run of heads, `last` being one past the end; empty if first >= last.
struct HeadRange {
  int32_t first;
  int32_t last;
};

// This work-group's share of `count` heads, which are spread evenly over gridDim.y.
__device__ __forceinline__ HeadRange head_range(int32_t count) {
  const int32_t parts = static_cast<int32_t>(gridDim.y);
  const int32_t share = (count + parts - 1) / parts;
  const int32_t first = share * static_cast<int32_t>(blockIdx.y);
  return {first, first + share < count ? first + share : count};
}

__device__ __forceinline__ HeadRange intersect(HeadRange a, int32_t first, int32_t last) {
  return {a.first > first ? a.first : first, a.last < last ? a.last : last};
}

// Reads a row's heads one after the other. The next head is on its way while one is worked on.
struct HeadReader {
  RowState state;
  HeadRange heads;
  HeadRange skipped;           // heads inside `heads` that are not read
  View<const uint16_t> place;  // of this lane in the head that was read last
  CodeSlice<uint16_t> next;

  // Must be called for each head, in order.
  __device__ __forceinline__ CodeSlice<uint16_t> take(int32_t head) {
    const CodeSlice<uint16_t> taken = next;
    const int32_t step = head + 1 == skipped.first ? skipped.last - head : 1;
    if (head + step < heads.last) {
      place = place + step * kHeadElements;
      next = load_slice(place, state.present);
    }
    return taken;
  }
};

// `heads` must not be empty, nor begin with a skipped head.
__device__ __forceinline__ HeadReader read_heads(View<const uint16_t> packed,
                                                 const PackedRow& layout, const RowState& state,
                                                 HeadRange heads, HeadRange skipped) {
  const View<const uint16_t> place =
      packed + (state.row * layout.pitch + heads.first * kHeadElements + lane_element(state.lane));
  return {state, heads, skipped, place, load_slice(place, state.present)};
}

// Writes a row's heads one after the other to a tensor [rows, heads, 128].
template <class Code>
struct HeadWriter {
  RowState state;
  View<Code> place;  // of this lane in the next head

  // All lanes of the group must call.
  __device__ __forceinline__ void put(const CodeSlice<Code>& codes) {
    store_slice(place, codes, state.lane, state.present);
    place = place + kHeadElements;
  }
};

template <class Code>
__device__ __forceinline__ HeadWriter<Code> write_heads(View<Code> tensor, const RowState& state,
                                                        int32_t num_heads, int32_t first_head) {
  const int64_t start = (state.row * num_heads + first_head) * kHeadElements;
  return {state, tensor + (start + lane_element(state.lane))};
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
