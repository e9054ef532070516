// Stages index_topk and sparse_block_table of the fused path in one kernel: a row's blocks go
// straight into its table (numerics.md sections 11 and 12). Its grid depends on the capacity alone.
#pragma once

#include "device/kernels/index_topk.hip.h"
#include "device/kernels/table_row.hip.h"
#include "device/kernels/token_request.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// A table row that grows with the selection.
struct GrowingRow {
  int64_t row;
  int64_t first_entry;  // of the request in the block table
  int32_t head;
  int32_t own_block;
  int32_t others;
  bool own;
};

// Thread j of the first 8 writes page j of place n.
__device__ __forceinline__ void store_pages(const TableRows& rows, const GrowingRow& grown,
                                            int32_t n, int32_t block) {
  const int32_t page = static_cast<int32_t>(threadIdx.x);
  if (page >= kTablePages) return;
  rows.table[table_place(rows, grown.row, n) + page] =
      folded_page(rows, grown.first_entry + block, page, grown.head);
}

__device__ __forceinline__ void add_block(const TableRows& rows, GrowingRow& grown, int32_t block) {
  if (ZERODIFF_PLANT(topk_order_contract, block == grown.own_block, false)) {
    grown.own = true;
    return;
  }
  store_pages(rows, grown, grown.others, block);
  ++grown.others;
}

// The own block, the unused entries and the length.
__device__ __forceinline__ void finish_row(const TableRows& rows, const GrowingRow& grown,
                                           int64_t position) {
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  if (grown.own) store_pages(rows, grown, grown.others, grown.own_block);
  const int32_t used = (grown.others + (grown.own ? 1 : 0)) * kTablePages;
  const int64_t first = table_place(rows, grown.row, 0);
  for (int32_t i = used + thread; i < rows.topk * kTablePages; i += kTopkThreads) {
    rows.table[first + i] = 0;
  }
  const int32_t length = row_length(grown.others, grown.own, position);
  if (thread == 0) rows.context_lens[grown.row] = length;
}

__device__ __forceinline__ void fused_topk_row(const IndexTopkArguments& args,
                                               const TableRows& rows,
                                               View<const int32_t> query_start_loc,
                                               int32_t num_requests, SharedView<int64_t> places) {
  const int64_t token = blockIdx.x / rows.num_kv_heads;
  if (token >= args.num_tokens[0]) return;
  const int32_t head = static_cast<int32_t>(blockIdx.x % rows.num_kv_heads);
  const int64_t head_row = int64_t{head} * args.num_rows + token;
  const int64_t position = args.positions[token];
  const TopkRow row = topk_row(args, head_row, position);
  const int32_t count = selected_count(row, args.topk);
  const int64_t first = selection_place(args, token, head);
  GrowingRow grown = {static_cast<int64_t>(blockIdx.x), 0, head, row.visible - 1, 0, false};
  if (count > 0) {
    grown.first_entry =
        int64_t{token_request(query_start_loc, num_requests, token)} * rows.num_columns;
  }
  TopkSelection selection = begin_selection(row);
  for (int32_t rank = 0; rank < count; ++rank) {
    const int32_t block = next_block(selection, row, places);
    if (threadIdx.x == 0) args.topk_index[first + rank] = block;
    add_block(rows, grown, block);
  }
  store_no_blocks(args.topk_index, first, count, args.topk);
  finish_row(rows, grown, position);
}

// One work-group a row, kv heads fastest. docs/kernels.md describes every argument.
ZERODIFF_KERNEL_BOUNDS(fused_topk, 128)
(View<const float> index_score, View<const int32_t> block_table,
 View<const int32_t> query_start_loc, View<const int64_t> positions, View<const int32_t> num_tokens,
 View<int32_t> topk_index, View<int32_t> table, View<int32_t> context_lens, int32_t num_rows,
 int32_t num_requests, int32_t num_columns, int32_t num_kv_heads, int32_t topk, int32_t init_blocks,
 int32_t local_blocks, uint32_t switches) {
  ZERODIFF_SHARED(int64_t, places, kTopkPlaces);
  fused_topk_row({index_score, positions, num_tokens, topk_index, num_rows, num_columns, topk,
                  init_blocks, local_blocks},
                 {block_table, table, context_lens, num_columns, num_kv_heads, topk, switches},
                 query_start_loc, num_requests, places);
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
