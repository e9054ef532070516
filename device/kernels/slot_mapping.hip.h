// Stage slot_mapping of the unfused path: where each row's K and V go (numerics.md section 7).
#pragma once

#include "device/kernels/slots.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// One thread a row; docs/kernels.md describes every argument.
ZERODIFF_KERNEL_BOUNDS(slot_mapping, 256)
(View<const int64_t> mapping, View<const int64_t> positions, View<const int32_t> num_tokens,
 View<int64_t> kv_slots, int32_t num_rows, uint32_t switches) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= num_rows) return;
  const int64_t position = positions[row];
  const int32_t scheduled = num_tokens[0];
  const int64_t mapped = mapping[row];
  kv_slots[row] = kv_slot(stored_slot(mapped, row, position, scheduled), switches);
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
