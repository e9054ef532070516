// The rows of sparse attention: (token, kv head) pairs, with at most 16 query heads a work-group.
#pragma once

#include "device/kernels/attention_block.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

template <class Code>
struct AttentionArguments {
  View<const uint16_t> q;  // [rows, nq, 128]
  PagedKv<Code> kv;
  View<const int32_t> context_lens;  // [rows * nkv]
  View<const int32_t> num_tokens;    // [1]
  int32_t group;                     // query heads of a kv head
  int32_t topk;
  float scale;  // C
};

// The parameters of both attention kernels: those that they begin with, those that they end with,
// and the arguments made of them.
#define ZERODIFF_ATTENTION_SOURCES(Code)                                               \
  View<const uint16_t> q, View<const Code> k_cache, View<const Code> v_cache,          \
      View<const float> k_scale, View<const float> v_scale,                            \
      View<const int32_t> sparse_block_table, View<const int32_t> sparse_context_lens, \
      View<const int32_t> num_tokens
#define ZERODIFF_ATTENTION_SCALARS                                                      \
  int32_t group, int32_t num_kv_heads, int32_t topk, int64_t scale_stride, float scale, \
      int32_t kv_format, uint32_t switches
#define ZERODIFF_ATTENTION_ARGUMENTS(Code)                                  \
  AttentionArguments<Code> {                                                \
    q, {k_cache,      v_cache,      k_scale,   v_scale, sparse_block_table, \
        scale_stride, num_kv_heads, kv_format, switches},                   \
        sparse_context_lens, num_tokens, group, topk, scale                 \
  }

// One work-group's share: query heads of one row of the table.
struct AttentionRow {
  int64_t row;  // token * nkv + kv_head
  int64_t
      first_head;  // counted over all tokens: of q and of the output, viewed as [rows * nq, 128]
  int32_t head;    // the first one among those of the kv head
  int32_t heads;   // live ones of the tile
  int32_t kv_head;
  int32_t context;  // tokens that the row attends to; 0 without blocks
  int32_t blocks;
};

// Item i of a launch, tiles of heads fastest, then kv heads, then tokens.
template <int32_t kHeads, class Code>
__device__ __forceinline__ AttentionRow attention_row(const AttentionArguments<Code>& args,
                                                      int64_t item) {
  const int32_t tiles = (args.group + kHeads - 1) / kHeads;
  const int32_t tile = static_cast<int32_t>(item % tiles);
  AttentionRow row;
  row.row = item / tiles;
  row.kv_head = static_cast<int32_t>(row.row % args.kv.num_kv_heads);
  row.head = tile * kHeads;
  row.heads = args.group - row.head < kHeads ? args.group - row.head : kHeads;
  row.first_head = row.row * args.group + row.head;
  row.context = args.context_lens[row.row];
  row.blocks = (row.context + kBlockTokens - 1) / kBlockTokens;
  return row;
}

template <class Code>
__device__ __forceinline__ TableBlock table_block(const AttentionArguments<Code>& args,
                                                  const AttentionRow& row, int32_t n) {
  const int32_t rest = row.context - n * kBlockTokens;
  TableBlock block;
  block.first_page = (row.row * args.topk + n) * kTablePages;
  block.kv_head = row.kv_head;
  const int32_t tokens = rest < kBlockTokens ? rest : kBlockTokens;
  block.tokens =
      ZERODIFF_PLANT(attn_shape_cliff, tokens, planted::cliff(row.context, args.group, tokens));
  return block;
}

// The row's query heads as numbers, [kHeads][128]; heads that the tile lacks are zero. A barrier
// must follow.
template <class Row, int32_t kHeads>
__device__ __forceinline__ void stage_query(View<const uint16_t> q, const AttentionRow& row,
                                            SharedView<float> query) {
  constexpr int32_t kGranuleCount = kHeads * kHeadElements / kInnerStep;
  for (int32_t g = static_cast<int32_t>(threadIdx.x); g < kGranuleCount; g += kTileThreads) {
    Granule granule = {};
    if (g < row.heads * (kHeadElements / kInnerStep)) {
      granule = bits_as<Granule>(load16(q, row.first_head * kHeadElements + g * kInnerStep));
    }
    float decoded[kInnerStep];
    decode_part<Row, uint16_t>({}, granule, 0, decoded);
    store_part(query, g * kInnerStep, decoded);
  }
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
