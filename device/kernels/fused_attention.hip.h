// Stage sparse_attention of the fused path: one kernel, which reads K and V once and merges as it
// goes (numerics.md section 13).
//
// The weight of a block depends on the maximum over all blocks, so a work-group first does Q K^T
// and the softmax of every block, and keeps the weights p in scratch (as bits of the model dtype,
// each thread its own); then M is known, and the blocks of V join the output in table order.
#pragma once

#include "device/kernels/attention_rows.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// Scratch of the launch, one place for each work-group.
struct FusedAttentionScratch {
  View<int64_t>
      weights;      // [groups][topk][heads of a tile / 2][32 lanes][2 heads]: 4 weights a word
  View<float> max;  // [groups][topk][heads of a tile]
  View<float> sum;
};

template <int32_t kHeads>
__device__ __forceinline__ int64_t scratch_block(int32_t topk, int32_t n) {
  return (static_cast<int64_t>(blockIdx.x) * topk + n) * kHeads;
}

// The place of the calling thread's weights of two heads.
template <int32_t kHeads>
__device__ __forceinline__ int64_t weight_words(int64_t block, int32_t pair) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  return block * kWeightWords + (int64_t{pair} * 32 + lane) * 2;
}

__device__ __forceinline__ int64_t pack_weights(const uint16_t (&p)[4]) {
  const uint64_t low = p[0] | static_cast<uint32_t>(p[1]) << 16;
  const uint64_t high = p[2] | static_cast<uint32_t>(p[3]) << 16;
  return static_cast<int64_t>(low | high << 32);
}

// Softmax of a block, two heads at a time for each group of 32 lanes. A barrier must follow.
template <class Row, int32_t kHeads>
__device__ __forceinline__ void keep_weights(SharedView<const float> scores, int32_t heads,
                                             int32_t tokens, const FusedAttentionScratch& scratch,
                                             int64_t block) {
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  for (int32_t pair = thread / 32; 2 * pair < heads; pair += kTileThreads / 32) {
    Vec16<int64_t> words;
    ZERODIFF_UNROLL
    for (int32_t i = 0; i < 2; ++i) {
      const int32_t head = 2 * pair + i;
      const HeadWeights weights = softmax_weights<Row>(scores, head, tokens);
      words.e[i] = pack_weights(weights.p);
      if (thread % 32 != 0) continue;
      scratch.max[block + head] = weights.max;
      scratch.sum[block + head] = weights.sum;
    }
    store16(scratch.weights, weight_words<kHeads>(block, pair), words);
  }
}

// The weights of a block, back where weighted_values() reads them. A barrier must follow.
template <class Row, int32_t kHeads>
__device__ __forceinline__ void recall_weights(const FusedAttentionScratch& scratch, int64_t block,
                                               int32_t heads, SharedView<float> weights) {
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  for (int32_t pair = thread / 32; 2 * pair < heads; pair += kTileThreads / 32) {
    const Vec16<int64_t> words = load16(scratch.weights, weight_words<kHeads>(block, pair));
    ZERODIFF_UNROLL
    for (int32_t i = 0; i < 2; ++i) {
      const uint64_t word = static_cast<uint64_t>(words.e[i]);
      const uint16_t p[4] = {static_cast<uint16_t>(word), static_cast<uint16_t>(word >> 16),
                             static_cast<uint16_t>(word >> 32), static_cast<uint16_t>(word >> 48)};
      stage_weights<Row>(p, 2 * pair + i, weights);
    }
  }
}

// What the first threads of the work-group, a head each, know of the merge.
struct MergeState {
  float max;
  float sum;
};

template <int32_t kHeads>
__device__ __forceinline__ MergeState begin_merge(const FusedAttentionScratch& scratch,
                                                  int32_t topk, const AttentionRow& row) {
  const int32_t head = static_cast<int32_t>(threadIdx.x);
  MergeState state;
  state.max = -INFINITY;
  state.sum = 0.0F;
  if (head >= row.heads) return state;
  for (int32_t n = 0; n < row.blocks; ++n) {
    const float block_max = scratch.max[scratch_block<kHeads>(topk, n) + head];
    state.max = fmaxf(state.max, block_max);
  }
  return state;
}

// w of the block for every head. A barrier must follow.
__device__ __forceinline__ void merge_block_sums(const FusedAttentionScratch& scratch,
                                                 int64_t block, int32_t heads,
                                                 SharedView<float> factors, MergeState& state) {
  const int32_t head = static_cast<int32_t>(threadIdx.x);
  if (head >= heads) return;
  const float block_max = scratch.max[block + head];
  const float block_sum = scratch.sum[block + head];
  const float weight = contract_exp2(block_max - state.max);
  state.sum = fmaf(weight, block_sum, state.sum);
  factors[head] = weight;
}

template <int32_t kHeads>
__device__ __forceinline__ void merge_block_values(const TileSums<kHeads>& block, int32_t heads,
                                                   SharedView<const float> factors,
                                                   TileSums<kHeads>& out) {
  ZERODIFF_UNROLL
  for (int32_t head = 0; head < kHeads; ++head) {
    if (head >= heads) continue;
    const float weight = factors[head];
    ZERODIFF_UNROLL
    for (int32_t i = 0; i < kColumnsPerThread; ++i) {
      out.e[head][i] = fmaf(weight, block.e[head][i], out.e[head][i]);
    }
  }
}

// `sums` holds L of every head; without blocks the output is +0.
template <class Row, int32_t kHeads>
__device__ __forceinline__ void store_output(const TileSums<kHeads>& out, const AttentionRow& row,
                                             SharedView<const float> sums,
                                             View<uint16_t> attn_output) {
  const int32_t heads =
      ZERODIFF_PLANT(attn_output_unwritten, row.heads, row.blocks == 0 ? 0 : row.heads);
  ZERODIFF_UNROLL
  for (int32_t head = 0; head < kHeads; ++head) {
    if (head >= heads) continue;
    const bool none = ZERODIFF_PLANT(attn_empty_split_nan, row.blocks == 0, false);
    const float sum = none ? 1.0F : static_cast<float>(sums[head]);
    ZERODIFF_UNROLL
    for (int32_t i = 0; i < kColumnsPerThread; ++i) {
      attn_output[(row.first_head + head) * kHeadElements + tile_column(i)] =
          Row::encode(out.e[head][i] / sum);
    }
  }
}

// The arrays in LDS.
struct FusedAttentionTile {
  SharedView<float> query;    // [kHeads][128]
  ValueInputs values;         // weights are scores at first
  SharedView<float> factors;  // [kHeads]
};

template <class Row, class Code, int32_t kHeads>
__device__ __forceinline__ void weigh_row(const AttentionArguments<Code>& args,
                                          const AttentionRow& row, const FusedAttentionTile& tile,
                                          const FusedAttentionScratch& scratch) {
  stage_query<Row, kHeads>(args.q, row, tile.query);
  __syncthreads();
  for (int32_t n = 0; n < row.blocks; ++n) {
    const TableBlock block = table_block(args, row, n);
    block_scores<Row, Code, kHeads>(args.kv, block, tile.query, row.heads, args.scale,
                                    tile.values.weights);
    __syncthreads();
    keep_weights<Row, kHeads>(tile.values.weights, row.heads, block.tokens, scratch,
                              scratch_block<kHeads>(args.topk, n));
    __syncthreads();
  }
}

template <class Row, class Code, int32_t kHeads>
__device__ __forceinline__ void sum_row(const AttentionArguments<Code>& args,
                                        const AttentionRow& row, const FusedAttentionTile& tile,
                                        const FusedAttentionScratch& scratch,
                                        View<uint16_t> attn_output) {
  MergeState state = begin_merge<kHeads>(scratch, args.topk, row);
  TileSums<kHeads> out = zero_sums<kHeads>();
  for (int32_t n = 0; n < row.blocks; ++n) {
    const TableBlock block = table_block(args, row, n);
    const int64_t place = scratch_block<kHeads>(args.topk, n);
    merge_block_sums(scratch, place, row.heads, tile.factors, state);
    recall_weights<Row, kHeads>(scratch, place, row.heads, tile.values.weights);
    stage_block(args.kv, block, tile.values);
    __syncthreads();
    const TileSums<kHeads> sums = weighted_values<Row, Code, kHeads>(
        args.kv, block, row.heads, tile.values, first_values(args.kv, tile.values));
    merge_block_values(sums, row.heads, tile.factors, out);
    __syncthreads();
  }
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  if (thread < row.heads) tile.factors[thread] = state.sum;
  __syncthreads();
  store_output<Row>(out, row, tile.factors, attn_output);
}

// The grid is a fixed number of work-groups, each with scratch of its own.
template <class Row, class Code, int32_t kHeads>
__device__ __forceinline__ void fused_attention(const AttentionArguments<Code>& args,
                                                const FusedAttentionScratch& scratch,
                                                View<uint16_t> attn_output) {
  ZERODIFF_SHARED(float, query, kHeads* kHeadElements);
  ZERODIFF_SHARED(float, scores, kHeads* kHeadElements);
  ZERODIFF_SHARED(float, v_scales, kBlockTokens);
  ZERODIFF_SHARED(int32_t, pages, kTablePages);
  ZERODIFF_SHARED(float, factors, kHeads);
  const FusedAttentionTile tile = {query, {scores, v_scales, pages}, factors};
  const int32_t tiles = (args.group + kHeads - 1) / kHeads;
  const int64_t items = int64_t{args.num_tokens[0]} * args.kv.num_kv_heads * tiles;
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const AttentionRow row = attention_row<kHeads>(args, item);
    weigh_row<Row, Code, kHeads>(args, row, tile, scratch);
    sum_row<Row, Code, kHeads>(args, row, tile, scratch, attn_output);
    __syncthreads();
  }
}

// docs/kernels.md describes every argument.
#define ZERODIFF_FUSED_ATTENTION(name, Row, Code, heads)                             \
  ZERODIFF_KERNEL_BOUNDS(name, 64)                                                   \
  (ZERODIFF_ATTENTION_SOURCES(Code), View<int64_t> weights, View<float> block_max,   \
   View<float> block_sum, View<uint16_t> attn_output, ZERODIFF_ATTENTION_SCALARS) {  \
    fused_attention<Row, Code, heads>(ZERODIFF_ATTENTION_ARGUMENTS(Code),            \
                                      {weights, block_max, block_sum}, attn_output); \
  }

ZERODIFF_FUSED_ATTENTION(fused_attention_bf16_auto_h4, BFloat16, uint16_t, 4)
ZERODIFF_FUSED_ATTENTION(fused_attention_bf16_auto_h8, BFloat16, uint16_t, 8)
ZERODIFF_FUSED_ATTENTION(fused_attention_bf16_auto_h16, BFloat16, uint16_t, 16)
ZERODIFF_FUSED_ATTENTION(fused_attention_bf16_fp8_h4, BFloat16, uint8_t, 4)
ZERODIFF_FUSED_ATTENTION(fused_attention_bf16_fp8_h8, BFloat16, uint8_t, 8)
ZERODIFF_FUSED_ATTENTION(fused_attention_bf16_fp8_h16, BFloat16, uint8_t, 16)
ZERODIFF_FUSED_ATTENTION(fused_attention_fp16_auto_h4, Float16, uint16_t, 4)
ZERODIFF_FUSED_ATTENTION(fused_attention_fp16_auto_h8, Float16, uint16_t, 8)
ZERODIFF_FUSED_ATTENTION(fused_attention_fp16_auto_h16, Float16, uint16_t, 16)
ZERODIFF_FUSED_ATTENTION(fused_attention_fp16_fp8_h4, Float16, uint8_t, 4)
ZERODIFF_FUSED_ATTENTION(fused_attention_fp16_fp8_h8, Float16, uint8_t, 8)
ZERODIFF_FUSED_ATTENTION(fused_attention_fp16_fp8_h16, Float16, uint8_t, 16)

#undef ZERODIFF_FUSED_ATTENTION

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
