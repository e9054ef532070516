// Attention of one block of a sparse block table, for all query heads of a kv head (numerics.md
// section 13): scores, softmax weights, weighted values. The three steps meet in LDS.
#pragma once

#include "device/kernels/exp2.hip.h"
#include "device/kernels/paged_kv.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// Dims 8*part .. 8*part + 7 of a granule of K.
template <class Row, class Code>
__device__ __forceinline__ ColumnValues k_values(const Fp8Decoder& decoder,
                                                 const Granules& granules, int32_t part,
                                                 const KColumns& columns) {
  ColumnValues values;
  ZERODIFF_UNROLL
  for (int32_t i = 0; i < kColumnsPerThread; ++i) {
    decode_part<Row, Code>(decoder, granules.e[i], part, values.e[i]);
    ZERODIFF_UNROLL
    for (int32_t j = 0; j < kInnerStep; ++j) {
      values.e[i][j] = dequantised<Row, Code>(values.e[i][j], columns.scale[i]);
    }
  }
  return values;
}

// The next granule is on its way while one is multiplied.
template <class Row, class Code, int32_t kHeads>
__device__ __forceinline__ TileSums<kHeads> query_dot_keys(const PagedKv<Code>& kv,
                                                           const KColumns& columns,
                                                           SharedView<const float> query,
                                                           int32_t heads) {
  constexpr int32_t kParts = kGranuleParts<Code>;
  const Fp8Decoder decoder = make_fp8_decoder(kv.kv_format);
  TileSums<kHeads> sums = zero_sums<kHeads>();
  Granules next = load_k(kv, columns, 0);
  Granules granules = next;
  for (int32_t step = 0; step < kHeadElements / kInnerStep; ++step) {
    const int32_t part = step % kParts;
    if (part == 0) {
      granules = next;
      const int32_t following = step / kParts + 1;
      if (following * kGranule<Code> < kHeadElements) next = load_k(kv, columns, following);
    }
    add_products(sums, query, heads, step * kInnerStep,
                 k_values<Row, Code>(decoder, granules, part, columns));
  }
  return sums;
}

// s of every head and position, [kHeads][128]; what stands at dead positions, and in rows past
// `heads`, has no meaning. `query` is [kHeads][128], `scale` is C. A barrier must follow.
template <class Row, class Code, int32_t kHeads>
__device__ __forceinline__ void block_scores(const PagedKv<Code>& kv, const TableBlock& block,
                                             SharedView<const float> query, int32_t heads,
                                             float scale, SharedView<float> scores) {
  const KColumns columns = k_columns(kv, block);
  TileSums<kHeads> sums = zero_sums<kHeads>();
  if (columns.any_live) sums = query_dot_keys<Row, Code, kHeads>(kv, columns, query, heads);
  ZERODIFF_UNROLL
  for (int32_t head = 0; head < kHeads; ++head) {
    ZERODIFF_UNROLL
    for (int32_t i = 0; i < kColumnsPerThread; ++i) {
      scores[head * kHeadElements + tile_column(i)] =
          sums.e[head][i] * ZERODIFF_PLANT(attn_sm_scale, scale, scale * 0x1.715476p+0F);
    }
  }
}

// What a group of 32 lanes knows of one head in one block; lane l has positions 4l .. 4l + 3.
struct HeadWeights {
  uint16_t p[4];  // in the model dtype; +0 for dead tokens
  float max;      // m and l of the contract, in every lane
  float sum;
};

// All 32 lanes of the group must call, with the same head.
template <class Row>
__device__ __forceinline__ HeadWeights softmax_weights(SharedView<const float> scores, int32_t head,
                                                       int32_t tokens) {
  const int32_t first = static_cast<int32_t>(threadIdx.x) % 32 * 4;
  const Vec16<float> s = load16(scores, head * kHeadElements + first);
  HeadWeights weights;
  weights.max = ZERODIFF_PLANT(attn_finite_inf_sentinel, -INFINITY, -5e4F);
  ZERODIFF_UNROLL
  for (int32_t i = 0; i < 4; ++i) {
    if (first + i < tokens) weights.max = fmaxf(weights.max, s.e[i]);
  }
  for (int32_t mask = 16; mask > 0; mask /= 2) {
    weights.max = fmaxf(weights.max, shfl_xor32(weights.max, mask));
  }
  float e[4];
  ZERODIFF_UNROLL
  for (int32_t i = 0; i < 4; ++i) {
    const bool counts = ZERODIFF_PLANT(attn_tail_unmasked, first + i < tokens, true);
    e[i] = counts ? contract_exp2(s.e[i] - weights.max) : 0.0F;
    weights.p[i] = Row::encode(ZERODIFF_PLANT(attn_fp8_p_range, e[i], planted::as_e4m3(e[i])));
  }
  // The lanes are those of lane_sum128 in numerics.md section 0.
  weights.sum = ((e[0] + e[1]) + e[2]) + e[3];
  for (int32_t mask = 16; mask > 0; mask /= 2) {
    weights.sum = weights.sum + shfl_xor32(weights.sum, mask);
  }
  return weights;
}

// Puts weights where weighted_values() reads them.
template <class Row>
__device__ __forceinline__ void stage_weights(const uint16_t (&p)[4], int32_t head,
                                              SharedView<float> weights) {
  Vec16<float> decoded;
  ZERODIFF_UNROLL
  for (int32_t i = 0; i < 4; ++i) decoded.e[i] = Row::decode(p[i]);
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  store16(weights, head * kHeadElements + lane * 4, decoded);
}

// Tokens first .. first + 7 of V, which are part `part` of their granule.
template <class Row, class Code>
__device__ __forceinline__ ColumnValues v_values(const Fp8Decoder& decoder,
                                                 const Granules& granules, int32_t part,
                                                 SharedView<const float> v_scales, int32_t first) {
  float scales[kInnerStep] = {};
  if constexpr (sizeof(Code) == 1) {
    ZERODIFF_UNROLL
    for (int32_t j = 0; j < kInnerStep; j += 4) {
      const Vec16<float> quad = load16(v_scales, first + j);
      ZERODIFF_UNROLL
      for (int32_t i = 0; i < 4; ++i) scales[j + i] = quad.e[i];
    }
  }
  ColumnValues values;
  ZERODIFF_UNROLL
  for (int32_t i = 0; i < kColumnsPerThread; ++i) {
    decode_part<Row, Code>(decoder, granules.e[i], part, values.e[i]);
    ZERODIFF_UNROLL
    for (int32_t j = 0; j < kInnerStep; ++j) {
      values.e[i][j] = dequantised<Row, Code>(values.e[i][j], scales[j]);
    }
  }
  return values;
}

// What P V reads from LDS.
struct ValueInputs {
  SharedView<float> weights;   // [kHeads][128]
  SharedView<float> v_scales;  // [128], of fp8 caches
  SharedView<int32_t> pages;   // [8]
};

// All of it but the weights. A barrier must follow.
template <class Code>
__device__ __forceinline__ void stage_block(const PagedKv<Code>& kv, const TableBlock& block,
                                            const ValueInputs& inputs) {
  stage_pages(kv, block, inputs.pages);
  stage_v_scales(kv, block, inputs.v_scales);
}

// The first granules of V, which may be on their way while weights are computed.
template <class Code>
__device__ __forceinline__ Granules first_values(const PagedKv<Code>& kv,
                                                 const ValueInputs& inputs) {
  return load_v(kv, inputs.pages, 0);
}

// o of the first `heads` heads, in the thread's dims. `next` is first_values().
template <class Row, class Code, int32_t kHeads>
__device__ __forceinline__ TileSums<kHeads> weighted_values(const PagedKv<Code>& kv,
                                                            const TableBlock& block, int32_t heads,
                                                            const ValueInputs& inputs,
                                                            Granules next) {
  constexpr int32_t kParts = kGranuleParts<Code>;
  const Fp8Decoder decoder = make_fp8_decoder(kv.kv_format);
  TileSums<kHeads> sums = zero_sums<kHeads>();
  Granules granules = next;
  for (int32_t first = 0; first < block.tokens; first += kInnerStep) {
    const int32_t part = first / kInnerStep % kParts;
    if (part == 0) {
      granules = next;
      const int32_t following = first / kGranule<Code> + 1;
      if (following * kGranule<Code> < block.tokens) next = load_v(kv, inputs.pages, following);
    }
    const ColumnValues values =
        v_values<Row, Code>(decoder, granules, part, inputs.v_scales, first);
    const int32_t live = ZERODIFF_PLANT(attn_v_tail_nan, block.tokens - first, kInnerStep);
    if (live >= kInnerStep) {
      add_products(sums, inputs.weights, heads, first, values);
    } else {
      add_first_products(sums, inputs.weights, heads, first, values, live);
    }
  }
  return sums;
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
