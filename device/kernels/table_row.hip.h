// One row of the sparse block table: blocks as pages with the kv head folded in, and its length
// (numerics.md section 12).
#pragma once

#include "device/kernels/attention_contract.h"
#include "device/kernels/contract.h"
#include "device/kernels/plant.hip.h"
#include "device/platform/platform.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

struct TableRows {
  View<const int32_t> block_table;  // [R][columns]
  View<int32_t> table;              // [rows * nkv][topk * 8]
  View<int32_t> context_lens;       // [rows * nkv]
  int32_t num_columns;
  int32_t num_kv_heads;
  int32_t topk;
  uint32_t switches;
};

// Pages from one block of the pool to the next: with block_contiguous, V pages stand between.
__device__ __forceinline__ int64_t pages_per_block(uint32_t switches) {
  const bool strided = (switches & kBlockContiguous) != 0;
  return ZERODIFF_PLANT(sparse_table_page_expansion, strided, false) ? 2 * kTablePages
                                                                     : kTablePages;
}

// Page j of the block that `entry` of the block table names, as seen by a kv head. Ids of valid
// calls stay below 2^31.
__device__ __forceinline__ int32_t folded_page(const TableRows& rows, int64_t entry, int32_t j,
                                               int32_t head) {
  const int64_t physical = rows.block_table[entry];
  const int64_t page = physical * pages_per_block(rows.switches) + j;
  return static_cast<int32_t>(page * rows.num_kv_heads + head);
}

// Where the pages of the block in place n of a row stand.
__device__ __forceinline__ int64_t table_place(const TableRows& rows, int64_t row, int32_t n) {
  return (row * rows.topk + n) * kTablePages;
}

__device__ __forceinline__ void store_block(const TableRows& rows, int64_t row, int32_t n,
                                            int64_t entry, int32_t head) {
  for (int32_t half = 0; half < kTablePages; half += 4) {
    Vec16<int32_t> pages;
    for (int32_t i = 0; i < 4; ++i) pages.e[i] = folded_page(rows, entry, half + i, head);
    store16(rows.table, table_place(rows, row, n) + half, pages);
  }
}

__device__ __forceinline__ void store_unused(const TableRows& rows, int64_t row, int32_t n) {
  const Vec16<int32_t> zeros = {};
  store16(rows.table, table_place(rows, row, n), zeros);
  store16(rows.table, table_place(rows, row, n) + 4, zeros);
}

// Tokens that a row attends to; `position` is negative for an empty row.
__device__ __forceinline__ int32_t row_length(int32_t others, bool own, int64_t position) {
  if (position < 0) return 0;
  const int64_t whole = int64_t{others} * kBlockTokens;
  const int64_t own_tokens = position % kBlockTokens + ZERODIFF_PLANT(attn_causal_offset, 1, 0);
  if (own) return static_cast<int32_t>(whole + own_tokens);
  return static_cast<int32_t>(whole < position + 1 ? whole : position + 1);
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
