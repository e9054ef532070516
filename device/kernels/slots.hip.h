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
  return slot < 0 ? slot : 2 * (slot / kBlockTokens) * kBlockTokens + slot % kBlockTokens;
}

// The inverse, which is what per-slot scales are indexed by.
__device__ __forceinline__ int64_t slot_before_rebase(int64_t slot) {
  return slot / (2 * kBlockTokens) * kBlockTokens + slot % kBlockTokens;
}

// The slot that a mapping names for a row, or -1: only scheduled rows with a position are stored.
__device__ __forceinline__ int64_t stored_slot(int64_t mapped, int64_t row, int64_t position,
                                               int32_t num_tokens) {
  const bool stored = row < num_tokens && position >= 0;
  return stored && mapped >= 0 ? mapped : -1;
}

// A stored_slot() of the K/V mapping as the slot that the pool's pages count.
__device__ __forceinline__ int64_t kv_slot(int64_t slot, uint32_t switches) {
  const bool rebases = (switches & kBlockContiguous) != 0 && (switches & kRebasedSlots) == 0;
  return rebases ? rebased_slot(slot) : slot;
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
