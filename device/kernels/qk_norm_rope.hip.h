// Stage qk_norm_rope of the unfused path: QK-norm, RoPE and materialisation (numerics.md 3 to 5).
//
// k and index_k are replaced in place in the packed row; q and index_q leave as tensors of their
// own. docs/kernels.md describes every argument.
#pragma once

#include "device/kernels/fp32_side_buffer.hip.h"
#include "device/kernels/materialise.hip.h"
#include "device/kernels/norm_rope_heads.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

template <class IndexCode>
struct QkNormRopeArguments {
  View<uint16_t> packed;
  NormWeights weights;
  RopeTable rope;
  View<const int64_t> positions;
  View<uint16_t> q;
  View<IndexCode> index_q;
  View<float> k_fp32;  // absent unless the caches are quantised from fp32
  int32_t num_rows;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t num_index_heads;
  float eps;
  int32_t index_format;
  uint32_t switches;
};

// A k head, or index_k, back into the packed row; `side_head` is its place in the side buffer.
template <class Row, class IndexCode>
__device__ __forceinline__ void replace_head(const QkNormRopeArguments<IndexCode>& args,
                                             const PackedRow& layout, const RowState& state,
                                             int32_t head, int32_t side_head, const HeadSlice& z) {
  const int64_t start = state.row * layout.pitch + head * kHeadElements;
  const CodeSlice<uint16_t> codes = encode_slice<Row>(z);
  store_slice(args.packed + (start + lane_element(state.lane)),
              ZERODIFF_PLANT(rope_inplace_race, codes,
                             load_slice(args.packed + (start + (lane_element(state.lane) ^ 8)),
                                        state.present)),
              state.lane, state.present);
  if (args.k_fp32) {
    store_fp32(args.k_fp32 + fp32_row_start(state, args.num_kv_heads), side_head, z, state);
  }
}

template <class Row, class IndexCode>
__device__ __forceinline__ void norm_main_heads(const QkNormRopeArguments<IndexCode>& args,
                                                const PackedRow& layout, HeadReader& reader,
                                                const RopeFactors& factors) {
  const HeadRange q_heads = intersect(reader.heads, 0, layout.first_k);
  HeadWriter<uint16_t> q =
      write_heads<uint16_t>(args.q, reader.state, args.num_heads, q_heads.first);
  norm_rope_heads<Row>(reader, q_heads, args.weights.q, args.eps, factors,
                       [&](int32_t, const HeadSlice& z) { q.put(encode_slice<Row>(z)); });
  norm_rope_heads<Row>(reader, intersect(reader.heads, layout.first_k, layout.first_v),
                       args.weights.k, args.eps, factors, [&](int32_t head, const HeadSlice& z) {
                         replace_head<Row>(args, layout, reader.state, head, head - layout.first_k,
                                           z);
                       });
}

template <class Row, class IndexCode>
__device__ __forceinline__ void norm_index_heads(const QkNormRopeArguments<IndexCode>& args,
                                                 const PackedRow& layout, HeadReader& reader,
                                                 const RopeFactors& factors) {
  const HeadRange q_heads = intersect(reader.heads, layout.first_index_q, layout.index_k);
  HeadWriter<IndexCode> index_q = write_heads<IndexCode>(
      args.index_q, reader.state, args.num_index_heads, q_heads.first - layout.first_index_q);
  const Fp8Encoder encoder = make_fp8_encoder(args.index_format, 0);
  norm_rope_heads<Row>(reader, q_heads, args.weights.index_q, args.eps, factors,
                       [&](int32_t, const HeadSlice& z) {
                         index_q.put(index_q_codes<Row, IndexCode>(z, encoder, args.switches));
                       });
  norm_rope_heads<Row>(reader, intersect(reader.heads, layout.index_k, layout.index_k + 1),
                       args.weights.index_k, args.eps, factors,
                       [&](int32_t head, const HeadSlice& z) {
                         replace_head<Row>(args, layout, reader.state, head, args.num_kv_heads, z);
                       });
}

// A run of the heads that are normed, which are all but the V heads, as a run of the packed row.
__device__ __forceinline__ HeadRange normed_heads(const PackedRow& layout, HeadRange range) {
  const int32_t v_heads = layout.first_index_q - layout.first_v;
  return {range.first < layout.first_v ? range.first : range.first + v_heads,
          range.last <= layout.first_v ? range.last : range.last + v_heads};
}

template <class Row, class IndexCode>
__device__ __forceinline__ void qk_norm_rope(const QkNormRopeArguments<IndexCode>& args) {
  const PackedRow layout = packed_row(args.num_heads, args.num_kv_heads, args.num_index_heads);
  const bool skips_index = (args.switches & kSkipIndexBranch) != 0;
  const HeadRange heads = normed_heads(
      layout, head_range(layout.first_v + (skips_index ? 0 : args.num_index_heads + 1)));
  if (heads.first >= heads.last) return;
  const RowState state = row_state(args.num_rows);
  HeadReader reader =
      read_heads(args.packed, layout, state, heads, {layout.first_v, layout.first_index_q});
  const RopeFactors factors =
      load_rope_factors<Row>(args.rope, load_or(args.positions, state, -1), state.lane);
  norm_main_heads<Row>(args, layout, reader, factors);
  norm_index_heads<Row>(args, layout, reader, factors);
}

#define ZERODIFF_QK_NORM_ROPE(name, Row, IndexCode)                                               \
  ZERODIFF_KERNEL_RESIDENT(name, 256, 4)                                                          \
  (View<uint16_t> packed, View<const uint16_t> q_norm_weight, View<const uint16_t> k_norm_weight, \
   View<const uint16_t> index_q_norm_weight, View<const uint16_t> index_k_norm_weight,            \
   View<const uint16_t> cos_sin_cache, View<const int64_t> cos_sin_rows,                          \
   View<const int64_t> positions, View<uint16_t> q, View<IndexCode> index_q, View<float> k_fp32,  \
   int32_t num_rows, int32_t num_heads, int32_t num_kv_heads, int32_t num_index_heads,            \
   int32_t rotary_dim, int64_t num_table_rows, float eps, int32_t index_format,                   \
   uint32_t switches) {                                                                           \
    qk_norm_rope<Row, IndexCode>(                                                                 \
        {packed,                                                                                  \
         {q_norm_weight, k_norm_weight, index_q_norm_weight, index_k_norm_weight},                \
         {cos_sin_cache, cos_sin_rows, num_table_rows, rotary_dim},                               \
         positions,                                                                               \
         q,                                                                                       \
         index_q,                                                                                 \
         k_fp32,                                                                                  \
         num_rows,                                                                                \
         num_heads,                                                                               \
         num_kv_heads,                                                                            \
         num_index_heads,                                                                         \
         eps,                                                                                     \
         index_format,                                                                            \
         switches});                                                                              \
  }

ZERODIFF_QK_NORM_ROPE(qk_norm_rope_bf16_auto, BFloat16, uint16_t)
ZERODIFF_QK_NORM_ROPE(qk_norm_rope_bf16_fp8, BFloat16, uint8_t)
ZERODIFF_QK_NORM_ROPE(qk_norm_rope_fp16_auto, Float16, uint16_t)
ZERODIFF_QK_NORM_ROPE(qk_norm_rope_fp16_fp8, Float16, uint8_t)

#undef ZERODIFF_QK_NORM_ROPE

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
