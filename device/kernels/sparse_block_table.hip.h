// Stage sparse_block_table of the unfused path: selected blocks as pages (numerics.md section 12).
#pragma once

#include "device/kernels/attention_contract.h"
#include "device/kernels/table_row.hip.h"
#include "device/kernels/token_request.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// What one thread finds in a row of the selection. Entries below 0 select nothing.
struct RowSelection {
  int32_t block;   // at the thread's own rank; -1: none
  int32_t place;   // blocks before it, the own one left out
  int32_t others;  // blocks of the row other than the own one
  bool own;        // the own one is selected
};

__device__ __forceinline__ RowSelection row_selection(View<const int32_t> topk_index, int64_t first,
                                                      int32_t topk, int32_t rank,
                                                      int32_t own_block) {
  RowSelection selection = {-1, 0, 0, false};
  for (int32_t i = 0; i < topk; ++i) {
    const int32_t block = topk_index[first + i];
    if (i == rank) {
      selection.block = block;
      selection.place = selection.others;
    }
    if (block == own_block) selection.own = true;
    if (block >= 0 && block != own_block) ++selection.others;
  }
  return selection;
}

struct SparseBlockTableArguments {
  View<const int32_t> topk_index;  // [nkv][rows][topk]
  View<const int32_t> query_start_loc;
  View<const int64_t> positions;
  View<const int32_t> num_tokens;
  TableRows rows;
  int32_t num_rows;
  int32_t num_requests;
};

// The thread that has a rank writes the entries of the block there; the one after the last of the
// other blocks writes the own one's; those after it write what is unused.
__device__ __forceinline__ void store_rank(const SparseBlockTableArguments& args, int64_t token,
                                           int32_t head, int32_t rank) {
  const TableRows& rows = args.rows;
  const int64_t row = token * rows.num_kv_heads + head;
  const int64_t position = args.positions[token];
  RowSelection selection = {-1, 0, 0, false};
  const int32_t last_block = static_cast<int32_t>(position / kBlockTokens);
  const int32_t own_block = ZERODIFF_PLANT(topk_order_contract, last_block, -2);
  int64_t table = 0;
  if (position >= 0) {
    const int64_t head_row = int64_t{head} * args.num_rows + token;
    selection = row_selection(args.topk_index, head_row * rows.topk, rows.topk, rank, own_block);
    table =
        int64_t{token_request(args.query_start_loc, args.num_requests, token)} * rows.num_columns;
  }
  const bool selects = ZERODIFF_PLANT(topk_sentinel_deref, selection.block >= 0, position >= 0);
  if (selects && selection.block != own_block) {
    store_block(rows, row, selection.place, table + selection.block, head);
  }
  if (rank == selection.others && selection.own) {
    store_block(rows, row, rank, table + own_block, head);
  } else if (rank >= selection.others) {
    store_unused(rows, row, rank);
  }
  if (rank == 0) {
    const int32_t length = row_length(selection.others, selection.own, position);
    rows.context_lens[row] = length;
  }
}

// One thread an entry of the selection, ranks fastest, then kv heads, then tokens. docs/kernels.md
// describes every argument.
ZERODIFF_KERNEL_BOUNDS(sparse_block_table, 128)
(View<const int32_t> topk_index, View<const int32_t> block_table,
 View<const int32_t> query_start_loc, View<const int64_t> positions, View<const int32_t> num_tokens,
 View<int32_t> table, View<int32_t> context_lens, int32_t num_rows, int32_t num_requests,
 int32_t num_columns, int32_t num_kv_heads, int32_t topk, uint32_t switches) {
  const SparseBlockTableArguments args = {
      topk_index,
      query_start_loc,
      positions,
      num_tokens,
      {block_table, table, context_lens, num_columns, num_kv_heads, topk, switches},
      num_rows,
      num_requests};
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kTableThreads + threadIdx.x;
  const int64_t row = item / topk;
  const int64_t token = row / num_kv_heads;
  if (token >= args.num_tokens[0]) return;
  store_rank(args, token, static_cast<int32_t>(row % num_kv_heads),
             static_cast<int32_t>(item % topk));
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
