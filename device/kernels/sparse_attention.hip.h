// Stage sparse_attention of the unfused path (numerics.md section 13), its first half: each block
// of a row on its own, the blocks spread over work-groups. attention_merge.hip.h joins them.
#pragma once

#include "device/kernels/attention_rows.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// What is known of each block: o [rows][topk][group][128], m and l [rows][topk][group], rows being
// those of the launch.
struct AttentionPartials {
  View<float> out;
  View<float> max;
  View<float> sum;
};

// The place of the tile's first head in block n.
template <class Code>
__device__ __forceinline__ int64_t partial_head(const AttentionArguments<Code>& args,
                                                const AttentionRow& row, int64_t first_row,
                                                int32_t n) {
  return ((row.row - first_row) * args.topk + n) * args.group + row.head;
}

// Scores become weights where they stand, a group of 32 lanes a head. A barrier must follow.
template <class Row>
__device__ __forceinline__ void weigh_scores(SharedView<float> scores, const TableBlock& block,
                                             const AttentionPartials& partials, int64_t first_head,
                                             int32_t heads) {
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  for (int32_t head = thread / 32; head < heads; head += kTileThreads / 32) {
    const HeadWeights weights = softmax_weights<Row>(scores, head, block.tokens);
    stage_weights<Row>(weights.p, head, scores);
    if (thread % 32 == 0) {
      partials.max[first_head + head] = weights.max;
      partials.sum[first_head + head] = weights.sum;
    }
  }
}

template <int32_t kHeads>
__device__ __forceinline__ void store_partials(const TileSums<kHeads>& sums, View<float> out,
                                               int64_t first_head, int32_t heads) {
  ZERODIFF_UNROLL
  for (int32_t head = 0; head < kHeads; ++head) {
    if (head >= heads) continue;
    ZERODIFF_UNROLL
    for (int32_t i = 0; i < kColumnsPerThread; ++i) {
      out[(first_head + head) * kHeadElements + tile_column(i)] = sums.e[head][i];
    }
  }
}

// The blocks of a split: the row's own, shared out evenly.
struct BlockRange {
  int32_t first;
  int32_t last;  // one past
};

__device__ __forceinline__ BlockRange split_range(int32_t blocks) {
  const int32_t splits = static_cast<int32_t>(gridDim.y);
  const int32_t share = (blocks + splits - 1) / splits;
  BlockRange range;
  range.first = share * static_cast<int32_t>(blockIdx.y);
  range.last = range.first + share < blocks ? range.first + share : blocks;
  return range;
}

template <class Row, class Code, int32_t kHeads>
__device__ __forceinline__ void sparse_attention(const AttentionArguments<Code>& args,
                                                 const AttentionPartials& partials,
                                                 int64_t first_row) {
  ZERODIFF_SHARED(float, query, kHeads* kHeadElements);
  ZERODIFF_SHARED(float, scores, kHeads* kHeadElements);
  ZERODIFF_SHARED(float, v_scales, kBlockTokens);
  ZERODIFF_SHARED(int32_t, pages, kTablePages);
  const ValueInputs inputs = {scores, v_scales, pages};
  const int32_t tiles = (args.group + kHeads - 1) / kHeads;
  const int64_t item = first_row * tiles + blockIdx.x;
  const int64_t num_rows = int64_t{args.num_tokens[0]} * args.kv.num_kv_heads;
  if (item >= num_rows * tiles) return;
  const AttentionRow row = attention_row<kHeads>(args, item);
  const BlockRange range = split_range(row.blocks);
  if (range.first >= range.last) return;
  stage_query<Row, kHeads>(args.q, row, query);
  __syncthreads();
  for (int32_t n = range.first; n < range.last; ++n) {
    const TableBlock block = table_block(args, row, n);
    const int64_t first_head = partial_head(args, row, first_row, n);
    stage_block(args.kv, block, inputs);
    block_scores<Row, Code, kHeads>(args.kv, block, query, row.heads, args.scale, scores);
    __syncthreads();
    const Granules values = first_values(args.kv, inputs);
    weigh_scores<Row>(scores, block, partials, first_head, row.heads);
    __syncthreads();
    store_partials(weighted_values<Row, Code, kHeads>(args.kv, block, row.heads, inputs, values),
                   partials.out, first_head, row.heads);
    __syncthreads();
  }
}

// docs/kernels.md describes every argument. Rows first_row .. are those whose partials there is
// place for; the x axis counts their head tiles, the y axis the splits.
#define ZERODIFF_SPARSE_ATTENTION(name, Row, Code, heads)                                   \
  ZERODIFF_KERNEL_BOUNDS(name, 64)                                                          \
  (ZERODIFF_ATTENTION_SOURCES(Code), View<float> partial_out, View<float> partial_max,      \
   View<float> partial_sum, int64_t first_row, ZERODIFF_ATTENTION_SCALARS) {                \
    sparse_attention<Row, Code, heads>(ZERODIFF_ATTENTION_ARGUMENTS(Code),                  \
                                       {partial_out, partial_max, partial_sum}, first_row); \
  }

ZERODIFF_SPARSE_ATTENTION(sparse_attention_bf16_auto_h4, BFloat16, uint16_t, 4)
ZERODIFF_SPARSE_ATTENTION(sparse_attention_bf16_auto_h8, BFloat16, uint16_t, 8)
ZERODIFF_SPARSE_ATTENTION(sparse_attention_bf16_auto_h16, BFloat16, uint16_t, 16)
ZERODIFF_SPARSE_ATTENTION(sparse_attention_bf16_fp8_h4, BFloat16, uint8_t, 4)
ZERODIFF_SPARSE_ATTENTION(sparse_attention_bf16_fp8_h8, BFloat16, uint8_t, 8)
ZERODIFF_SPARSE_ATTENTION(sparse_attention_bf16_fp8_h16, BFloat16, uint8_t, 16)
ZERODIFF_SPARSE_ATTENTION(sparse_attention_fp16_auto_h4, Float16, uint16_t, 4)
ZERODIFF_SPARSE_ATTENTION(sparse_attention_fp16_auto_h8, Float16, uint16_t, 8)
ZERODIFF_SPARSE_ATTENTION(sparse_attention_fp16_auto_h16, Float16, uint16_t, 16)
ZERODIFF_SPARSE_ATTENTION(sparse_attention_fp16_fp8_h4, Float16, uint8_t, 4)
ZERODIFF_SPARSE_ATTENTION(sparse_attention_fp16_fp8_h8, Float16, uint8_t, 8)
ZERODIFF_SPARSE_ATTENTION(sparse_attention_fp16_fp8_h16, Float16, uint8_t, 16)

#undef ZERODIFF_SPARSE_ATTENTION

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
