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

inline constexpr int32_t kMergeLanes = kMergeThreads / kMergeHeads;  // of a head, 8 dims each

// One head of a row, of which the calling thread has some dims.
struct MergeLane {
  int64_t row;
  int32_t head;
  int32_t lane;   // 0 .. 15
  int32_t first;  // lane 0 of this head, counted in the group of 32
  int32_t blocks;
  bool live;  // otherwise there is no such head, and the thread only takes part in shuffles
};

__device__ __forceinline__ MergeLane merge_lane(const AttentionMergeArguments& args,
                                                int32_t blocks) {
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  MergeLane lane;
  lane.row = args.first_row + blockIdx.x;
  lane.head = static_cast<int32_t>(blockIdx.y) * kMergeHeads + thread / kMergeLanes;
  lane.lane = thread % kMergeLanes;
  lane.first = thread % 32 - lane.lane;
  lane.blocks = blocks;
  lane.live = lane.head < args.group;
  return lane;
}

// The place of the lane's head in block n.
__device__ __forceinline__ int64_t merge_source(const AttentionMergeArguments& args,
                                                const MergeLane& lane, int32_t n) {
  return ((lane.row - args.first_row) * args.topk + n) * args.group + lane.head;
}

// m of block n, or what leaves a maximum as it is.
__device__ __forceinline__ float block_max_or_least(const AttentionMergeArguments& args,
                                                    const MergeLane& lane, int32_t n) {
  if (!lane.live || n >= lane.blocks) return -INFINITY;
  const float block_max = args.partial_max[merge_source(args, lane, n)];
  return block_max;
}

// M, in all lanes of the head: each of them looks at every 16th block.
__device__ __forceinline__ float merged_max(const AttentionMergeArguments& args,
                                            const MergeLane& lane) {
  float max = -INFINITY;
  for (int32_t n = lane.lane; n < lane.blocks; n += kMergeLanes) {
    max = fmaxf(max, block_max_or_least(args, lane, n));
  }
  for (int32_t mask = kMergeLanes / 2; mask > 0; mask /= 2) {
    max = fmaxf(max, shfl_xor32(max, mask));
  }
  return max;
}

// O and L over the blocks so far.
struct MergedHead {
  float out[8];
  float sum;
};

// The lane's dims of kMergeStep blocks.
inline constexpr int32_t kMergeStep = 8;
struct BlockParts {
  Vec16<float> low[kMergeStep];
  Vec16<float> high[kMergeStep];
};

// Blocks n .. n + 7, as far as there are any: all of them on their way at once.
__device__ __forceinline__ BlockParts load_parts(const AttentionMergeArguments& args,
                                                 const MergeLane& lane, int32_t n) {
  BlockParts parts = {};
  ZERODIFF_UNROLL
  for (int32_t j = 0; j < kMergeStep; ++j) {
    if (!lane.live || n + j >= lane.blocks) continue;
    const int64_t source = merge_source(args, lane, n + j) * kHeadElements + lane.lane * 8;
    parts.low[j] = load16(args.partial_out, source);
    parts.high[j] = load16(args.partial_out, source + 4);
  }
  return parts;
}

__device__ __forceinline__ void merge_block(const BlockParts& parts, int32_t j, float weight,
                                            float block_sum, MergedHead& merged) {
  merged.sum = fmaf(weight, block_sum, merged.sum);
  ZERODIFF_UNROLL
  for (int32_t i = 0; i < 4; ++i) {
    merged.out[i] = fmaf(weight, parts.low[j].e[i], merged.out[i]);
    merged.out[4 + i] = fmaf(weight, parts.high[j].e[i], merged.out[4 + i]);
  }
}

// What the lanes of a head know of 16 blocks from `base` on, a block a lane.
struct MergeWeights {
  float weight;
  float sum;
};

__device__ __forceinline__ MergeWeights merge_weights(const AttentionMergeArguments& args,
                                                      const MergeLane& lane, int32_t base,
                                                      float max) {
  const int32_t own = base + lane.lane;
  MergeWeights weights = {contract_exp2(block_max_or_least(args, lane, own) - max), 0.0F};
  if (lane.live && own < lane.blocks) weights.sum = args.partial_sum[merge_source(args, lane, own)];
  return weights;
}

// All blocks in order. Each lane prepares the weight of one block of 16; all of them need it.
__device__ __forceinline__ MergedHead merge_blocks(const AttentionMergeArguments& args,
                                                   const MergeLane& lane) {
  BlockParts parts = load_parts(args, lane, 0);
  const float max = merged_max(args, lane);
  MergedHead merged = {};
  MergeWeights weights = {};
  for (int32_t n = 0; n < lane.blocks; n += kMergeStep) {
    if (n % kMergeLanes == 0) weights = merge_weights(args, lane, n, max);
    const BlockParts now = parts;
    if (n + kMergeStep < lane.blocks) parts = load_parts(args, lane, n + kMergeStep);
    ZERODIFF_UNROLL
    for (int32_t j = 0; j < kMergeStep; ++j) {
      if (n + j >= lane.blocks) continue;
      const int32_t source = lane.first + (n + j) % kMergeLanes;
      const float weight = shfl32(weights.weight, source);
      const float block_sum = shfl32(weights.sum, source);
      merge_block(now, j, weight, block_sum, merged);
    }
  }
  return merged;
}

template <class Row>
__device__ __forceinline__ void attention_merge(const AttentionMergeArguments& args) {
  const int64_t row = args.first_row + blockIdx.x;
  if (row >= int64_t{args.num_tokens[0]} * args.num_kv_heads) return;
  const int32_t context = args.context_lens[row];
  const MergeLane lane = merge_lane(args, (context + kBlockTokens - 1) / kBlockTokens);
  Vec16<uint16_t> out = {};
  if (ZERODIFF_PLANT(attn_empty_split_nan, context > 0, true)) {
    const MergedHead merged = merge_blocks(args, lane);
    ZERODIFF_UNROLL
    for (int32_t i = 0; i < 8; ++i) out.e[i] = Row::encode(merged.out[i] / merged.sum);
  }
  if (ZERODIFF_PLANT(attn_output_unwritten, !lane.live, !lane.live || context == 0)) return;
  store16(args.out, (row * args.group + lane.head) * kHeadElements + lane.lane * 8, out);
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
