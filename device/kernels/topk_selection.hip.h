// The best blocks of one row, exactly and in order (numerics.md section 11), by one work-group.
//
// Every thread keeps the best of its own blocks that has not been selected yet; each round takes
// the best of all threads, whose owner then looks for its next one. There are no candidate lists
// that could overflow, whatever the scores and however many of them are equal.
#pragma once

#include "device/kernels/attention_contract.h"
#include "device/kernels/contract.h"
#include "device/kernels/plant.hip.h"
#include "device/platform/platform.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

struct TopkRow {
  View<const float> scores;  // of the call
  int64_t first;             // the row's score of block 0
  int32_t visible;           // blocks that the row sees
  int32_t init_blocks;
  int32_t local_blocks;
};

// What section 11 makes of a block's score.
__device__ __forceinline__ float forced_score(const TopkRow& row, int32_t block) {
  const float stored = row.scores[row.first + block];
  const float nan_score = ZERODIFF_PLANT(topk_nonfinite_scores, -1e30F, 1e30F);
  float score = stored != stored ? nan_score : stored + 0.0F;
  if (block < row.init_blocks) score = 1e30F;
  if (block >= row.visible - row.local_blocks) score = 1e29F;
  return score;
}

// Orders blocks by (score descending, id ascending): a larger key is a better block, and no two are
// equal. Scores are neither NaN nor -0.
__device__ __forceinline__ int64_t block_key(float score, int32_t block) {
  const int32_t bits = bits_as<int32_t>(score);
  const int32_t ordered = bits < 0 ? bits ^ 0x7FFFFFFF : bits;
  return int64_t{ordered} * 0x100000000 + (0x7FFFFFFF - block);
}
__device__ __forceinline__ int32_t block_of_key(int64_t key) {
  return 0x7FFFFFFF - static_cast<int32_t>(key & 0x7FFFFFFF);
}

inline constexpr int64_t kNoKey = INT64_MIN;

// The best of the calling thread's blocks whose key is below `limit`.
__device__ __forceinline__ int64_t best_own_key(const TopkRow& row, int64_t limit) {
  int64_t best = kNoKey;
  for (int32_t block = static_cast<int32_t>(threadIdx.x); block < row.visible;
       block += kTopkThreads) {
    const int64_t key = block_key(forced_score(row, block), block);
    if (key < limit && key > best) best = key;
  }
  return best;
}

// One place for each group of 32 lanes, twice: a round may write while another still reads.
inline constexpr int32_t kTopkGroups = kTopkThreads / 32;
inline constexpr int32_t kTopkPlaces = 2 * kTopkGroups;

// The best key of all threads. `round` counts the calls. All threads must call.
__device__ __forceinline__ int64_t best_key(int64_t own, int32_t round,
                                            SharedView<int64_t> places) {
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  int64_t best = own;
  for (int32_t mask = 16; mask > 0; mask /= 2) {
    const int64_t other = shfl_xor32(best, mask);
    best = other > best ? other : best;
  }
  const int32_t first = round % 2 * kTopkGroups;
  if (thread % 32 == 0) places[first + thread / 32] = best;
  __syncthreads();
  for (int32_t group = 0; group < kTopkGroups; ++group) {
    const int64_t other = places[first + group];
    best = other > best ? other : best;
  }
  return best;
}

// A selection under way. next_block() gives the blocks from the best one on, at most `visible`
// times, the same to all threads.
struct TopkSelection {
  int64_t own;  // the calling thread's best block that is left
  int32_t round;
};

__device__ __forceinline__ TopkSelection begin_selection(const TopkRow& row) {
  TopkSelection selection;
  selection.own = best_own_key(row, INT64_MAX);
  selection.round = 0;
  return selection;
}

__device__ __forceinline__ int32_t next_block(TopkSelection& selection, const TopkRow& row,
                                              SharedView<int64_t> places) {
  const int64_t key = best_key(selection.own, selection.round, places);
  ++selection.round;
  if (key == selection.own) selection.own = best_own_key(row, key);
  return block_of_key(key);
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
