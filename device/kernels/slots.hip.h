// Where rows go: slots and their rebasing (numerics.md section 7).
#pragma once

#include "device/kernels/contract.h"
#include "device/kernels/plant.hip.h"
#include "device/platform/platform.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// A slot of K and V planes as the slot in a pool whose blocks hold 8 K pages, then 8 V pages.
__device__ __forceinline__ int64_t rebased_slot(int64_t slot) {
  const int64_t block = ZERODIFF_PLANT(slot_block_size_mismatch, kBlockTokens, kBlockTokens / 2);
  return slot < 0 ? slot : 2 * (slot / block) * block + slot % block;
}

// The inverse, which is what per-slot scales are indexed by.
__device__ __forceinline__ int64_t slot_before_rebase(int64_t slot) {
  return slot / (2 * kBlockTokens) * kBlockTokens + slot % kBlockTokens;
}

// The slot that a mapping names for a row, or -1: only scheduled rows with a position are stored.
__device__ __forceinline__ int64_t stored_slot(int64_t mapped, int64_t row, int64_t position,
                                               int32_t num_tokens) {
  const bool stored =
      ZERODIFF_PLANT(block_table_stale_tail, row < num_tokens && position >= 0, true);
  const int64_t nowhere = ZERODIFF_PLANT(
      slot_pad_to_zero, ZERODIFF_PLANT(slot_neg1_wraps_last, int64_t{-1}, planted::last_slot(row)),
      planted::slot_zero(row));
  return stored && mapped >= 0 ? mapped : nowhere;
}

// A stored_slot() of the K/V mapping as the slot that the pool's pages count.
__device__ __forceinline__ int64_t kv_slot(int64_t slot, uint32_t switches) {
  const bool strided = (switches & kBlockContiguous) != 0 && (switches & kRebasedSlots) == 0;
  const bool rebases = ZERODIFF_PLANT(stride_ignored, strided, false);
  return ZERODIFF_PLANT(kv_write_to_copy, rebases ? rebased_slot(slot) : slot, int64_t{-1});
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
