// z of the k heads and of index_k, beside the packed row: [rows, nkv + 1, 128], float32.
//
// The unfused path keeps it only when the contract quantises from fp32: what stands in the packed
// row has been rounded to the model dtype already.
#pragma once

#include "device/kernels/packed_rows.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// `head` counts k heads; index_k is head nkv. `k_fp32` is the row's part of the buffer.
__device__ __forceinline__ void store_fp32(View<float> k_fp32, int32_t head, const HeadSlice& z,
                                           const RowState& state) {
  if (!state.present) return;
  const int32_t start = head * kHeadElements + state.lane.lane * kLaneElements;
  for (int32_t part = 0; part < 2; ++part) {
    Vec16<float> values;
    for (int32_t i = 0; i < 4; ++i) values.e[i] = z.e[4 * part + i];
    store16(k_fp32, start + 4 * part, values);
  }
}

__device__ __forceinline__ HeadSlice load_fp32(View<const float> k_fp32, int32_t head,
                                               const RowState& state) {
  HeadSlice z = {};
  if (!state.present) return z;
  const int32_t start = head * kHeadElements + state.lane.lane * kLaneElements;
  for (int32_t part = 0; part < 2; ++part) {
    const Vec16<float> values = load16(k_fp32, start + 4 * part);
    for (int32_t i = 0; i < 4; ++i) z.e[4 * part + i] = values.e[i];
  }
  return z;
}

__device__ __forceinline__ int64_t fp32_row_start(const RowState& state, int32_t num_kv_heads) {
  return state.row * (num_kv_heads + 1) * kHeadElements;
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
