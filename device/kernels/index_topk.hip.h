// Stage index_topk of the unfused path: the blocks that a row attends to (numerics.md section 11).
#pragma once

#include "device/kernels/topk_selection.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

struct IndexTopkArguments {
  View<const float> index_score;   // [nkv][rows][columns]
  View<const int64_t> positions;   // [rows]
  View<const int32_t> num_tokens;  // [1]
  View<int32_t> topk_index;        // [nkv][rows][topk]
  int32_t num_rows;
  int32_t num_columns;
  int32_t topk;
  int32_t init_blocks;
  int32_t local_blocks;
};

// The row of a token's kv head, of which the token at `position` sees the blocks.
__device__ __forceinline__ TopkRow topk_row(const IndexTopkArguments& args, int64_t head_row,
                                            int64_t position) {
  TopkRow row;
  row.scores = args.index_score;
  row.first = head_row * args.num_columns;
  const int64_t block_tokens =
      ZERODIFF_PLANT(topk_block_granularity, int64_t{kBlockTokens}, int64_t{kPageTokens});
  const int32_t visible = static_cast<int32_t>(position < 0 ? 0 : position / block_tokens + 1);
  row.visible = ZERODIFF_PLANT(topk_candidate_overflow, visible, planted::at_most(visible, 3));
  row.init_blocks = args.init_blocks;
  row.local_blocks = ZERODIFF_PLANT(topk_forced_block_missing, args.local_blocks, 0);
  return row;
}

__device__ __forceinline__ int32_t selected_count(const TopkRow& row, int32_t topk) {
  const int32_t count = row.visible < topk ? row.visible : topk;
  return ZERODIFF_PLANT(topk_invalid_in_prefix,
                        ZERODIFF_PLANT(topk_k_exceeds_n, count, planted::all_of(count, topk)),
                        planted::one_less(count));
}

// -1 in the places of the row that no block takes.
__device__ __forceinline__ void store_no_blocks(View<int32_t> topk_index, int64_t first,
                                                int32_t count, int32_t topk) {
  const int32_t unused = ZERODIFF_PLANT(topk_stale_reuse, count, topk);
  for (int32_t i = unused + static_cast<int32_t>(threadIdx.x); i < topk; i += kTopkThreads) {
    topk_index[first + i] = -1;
  }
}

// Where the selection of the work-group's row stands.
__device__ __forceinline__ int64_t selection_place(const IndexTopkArguments& args, int64_t token,
                                                   int32_t head) {
  const int64_t rows =
      ZERODIFF_PLANT(topk_strides_ignored, int64_t{args.num_rows}, int64_t{args.num_tokens[0]});
  const int64_t row = int64_t{head} * rows + token;
  return ZERODIFF_PLANT(topk_layout_transposed, row, int64_t{blockIdx.x}) * args.topk;
}

// One work-group a row, kv heads fastest. docs/kernels.md describes every argument.
ZERODIFF_KERNEL_BOUNDS(index_topk, 128)
(View<const float> index_score, View<const int64_t> positions, View<const int32_t> num_tokens,
 View<int32_t> topk_index, int32_t num_rows, int32_t num_columns, int32_t num_kv_heads,
 int32_t topk, int32_t init_blocks, int32_t local_blocks) {
  ZERODIFF_SHARED(int64_t, places, kTopkPlaces);
  const IndexTopkArguments args = {index_score, positions, num_tokens,  topk_index,  num_rows,
                                   num_columns, topk,      init_blocks, local_blocks};
  const int64_t token = blockIdx.x / num_kv_heads;
  if (token >= args.num_tokens[0]) return;
  const int32_t head = static_cast<int32_t>(blockIdx.x % num_kv_heads);
  const int64_t head_row = int64_t{head} * num_rows + token;
  const int64_t position = args.positions[token];
  const TopkRow row = topk_row(args, head_row, position);
  const int32_t count = selected_count(row, topk);
  const int64_t first = selection_place(args, token, head);
  TopkSelection selection = begin_selection(row);
  for (int32_t rank = 0; rank < count; ++rank) {
    const int32_t block = next_block(selection, row, places);
    if (threadIdx.x == 0) args.topk_index[first + rank] = block;
  }
  store_no_blocks(args.topk_index, first, count, topk);
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
