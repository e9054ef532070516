// Stage sparse_attention of the unfused path, its second half: the blocks of a row join in table
// order (numerics.md section 13), so that the number of splits leaves no trace.
#pragma once

#include "device/kernels/attention_contract.h"
#include "device/kernels/contract.h"
#include "device/kernels/exp2.hip.h"
#include "device/kernels/number_formats.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

struct AttentionMergeArguments {
  View<const float> partial_out;     // [rows of the launch][topk][group][128]
  View<const float> partial_max;     // [rows of the launch][topk][group]
  View<const float> partial_sum;     // the same
  View<const int32_t> context_lens;  // [rows * nkv]
  View<const int32_t> num_tokens;    // [1]
  View<uint16_t> out;                // [rows, nq, 128]
  int64_t first_row;
  int32_t group;
  int32_t num_kv_heads;
  int32_t topk;
};

// One head of a row, of which the calling thread has 8 dims.
struct MergeLane {
  int64_t row;
  int32_t head;
  int32_t dim;
};

__device__ __forceinline__ MergeLane merge_lane(const AttentionMergeArguments& args) {
  constexpr int32_t kLanes = kMergeThreads / kMergeHeads;
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  MergeLane lane;
  lane.row = args.first_row + blockIdx.x;
  lane.head = static_cast<int32_t>(blockIdx.y) * kMergeHeads + thread / kLanes;
  lane.dim = thread % kLanes * (kHeadElements / kLanes);
  return lane;
}

// The place of the lane's head in block n.
__device__ __forceinline__ int64_t merge_source(const AttentionMergeArguments& args,
                                                const MergeLane& lane, int32_t n) {
  return ((lane.row - args.first_row) * args.topk + n) * args.group + lane.head;
}

// O and L over the blocks, which are at least one.
struct MergedHead {
  float out[8];
  float sum;
};

__device__ __forceinline__ MergedHead merge_blocks(const AttentionMergeArguments& args,
                                                   const MergeLane& lane, int32_t blocks) {
  float max = -INFINITY;
  for (int32_t n = 0; n < blocks; ++n) {
    const float block_max = args.partial_max[merge_source(args, lane, n)];
    max = fmaxf(max, block_max);
  }
  MergedHead merged = {};
  for (int32_t n = 0; n < blocks; ++n) {
    const int64_t source = merge_source(args, lane, n);
    const float block_max = args.partial_max[source];
    const float block_sum = args.partial_sum[source];
    const float weight = contract_exp2(block_max - max);
    merged.sum = fmaf(weight, block_sum, merged.sum);
    ZERODIFF_UNROLL
    for (int32_t half = 0; half < 8; half += 4) {
      const Vec16<float> out = load16(args.partial_out, source * kHeadElements + lane.dim + half);
      ZERODIFF_UNROLL
      for (int32_t i = 0; i < 4; ++i) {
        merged.out[half + i] = fmaf(weight, out.e[i], merged.out[half + i]);
      }
    }
  }
  return merged;
}

template <class Row>
__device__ __forceinline__ void attention_merge(const AttentionMergeArguments& args) {
  const MergeLane lane = merge_lane(args);
  const int64_t num_rows = int64_t{args.num_tokens[0]} * args.num_kv_heads;
  if (lane.row >= num_rows || lane.head >= args.group) return;
  const int32_t context = args.context_lens[lane.row];
  Vec16<uint16_t> out = {};
  if (context > 0) {
    const MergedHead merged = merge_blocks(args, lane, (context + kBlockTokens - 1) / kBlockTokens);
    ZERODIFF_UNROLL
    for (int32_t i = 0; i < 8; ++i) out.e[i] = Row::encode(merged.out[i] / merged.sum);
  }
  store16(args.out, (lane.row * args.group + lane.head) * kHeadElements + lane.dim, out);
}

// docs/kernels.md describes every argument. The x axis counts rows first_row .., the y axis groups
// of 8 heads.
#define ZERODIFF_ATTENTION_MERGE(name, Row)                                                       \
  ZERODIFF_KERNEL_BOUNDS(name, 128)                                                               \
  (View<const float> partial_out, View<const float> partial_max, View<const float> partial_sum,   \
   View<const int32_t> sparse_context_lens, View<const int32_t> num_tokens,                       \
   View<uint16_t> attn_output, int64_t first_row, int32_t group, int32_t num_kv_heads,            \
   int32_t topk) {                                                                                \
    attention_merge<Row>({partial_out, partial_max, partial_sum, sparse_context_lens, num_tokens, \
                          attn_output, first_row, group, num_kv_heads, topk});                    \
  }

ZERODIFF_ATTENTION_MERGE(attention_merge_bf16, BFloat16)
ZERODIFF_ATTENTION_MERGE(attention_merge_fp16, Float16)

#undef ZERODIFF_ATTENTION_MERGE

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
