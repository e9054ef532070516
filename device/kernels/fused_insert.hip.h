// The fused path: stages qk_norm_rope, slot_mapping, reshape_and_cache and index_cache_insert in
// one pass over the packed rows (numerics.md 3 to 9).
#pragma once

#include "device/kernels/kv_layout.hip.h"
#include "device/kernels/materialise.hip.h"
#include "device/kernels/norm_rope_heads.hip.h"
#include "device/kernels/slots.hip.h"
#include "device/kernels/value_tile.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

template <class KvCode, class IndexCode>
struct FusedInsertArguments {
  View<const uint16_t> packed;
  NormWeights weights;
  RopeTable rope;
  View<const int64_t> positions;
  View<const int64_t> slot_mapping;
  View<const int64_t> index_slot_mapping;
  View<const int32_t> num_tokens;
  ScaleTable k_scale;
  ScaleTable v_scale;
  View<uint16_t> q;
  View<IndexCode> index_q;
  View<KvCode> k_cache;
  View<KvCode> v_cache;
  View<IndexCode> index_cache;
  int32_t num_rows;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t num_index_heads;
  float eps;
  int32_t kv_format;
  int32_t index_format;
  uint32_t switches;
};

// What all heads of a lane's row share.
struct InsertState {
  RowState row;
  RopeFactors rope;
  int64_t kv_slot;     // negative: not stored
  int64_t index_slot;  // negative: not stored
};

template <class Row, class KvCode, class IndexCode>
__device__ __forceinline__ InsertState
insert_state(const FusedInsertArguments<KvCode, IndexCode>& args, const RowState& row) {
  InsertState state;
  state.row = row;
  const int64_t position = load_or(args.positions, state.row, -1);
  const int32_t num_tokens = args.num_tokens[0];
  const int64_t mapped = load_or(args.slot_mapping, state.row, -1);
  state.kv_slot = kv_slot(stored_slot(mapped, state.row.row, position, num_tokens), args.switches);
  state.index_slot = -1;
  if ((args.switches & kSkipIndexBranch) == 0) {
    state.index_slot = stored_slot(load_or(args.index_slot_mapping, state.row, -1), state.row.row,
                                   position, num_tokens);
  }
  state.rope = load_rope_factors<Row>(args.rope, position, state.row.lane);
  return state;
}

template <class Row, class KvCode, class IndexCode>
__device__ __forceinline__ void insert_q(const FusedInsertArguments<KvCode, IndexCode>& args,
                                         const PackedRow& layout, const InsertState& state,
                                         HeadReader& reader) {
  const View<uint16_t> q = args.q + state.row.row * args.num_heads * kHeadElements;
  norm_rope_heads<Row>(reader, intersect(reader.heads, 0, layout.first_k), args.weights.q, args.eps,
                       state.rope, [&](int32_t head, const HeadSlice& z) {
                         store_contiguous(q + head * kHeadElements, encode_slice<Row>(z),
                                          state.row.lane, state.row.present);
                       });
}

template <class Row, class KvCode, class IndexCode>
__device__ __forceinline__ void insert_k(const FusedInsertArguments<KvCode, IndexCode>& args,
                                         const PackedRow& layout, const InsertState& state,
                                         HeadReader& reader) {
  const Fp8Encoder encoder = make_fp8_encoder(args.kv_format, args.switches);
  norm_rope_heads<Row>(reader, intersect(reader.heads, layout.first_k, layout.first_v),
                       args.weights.k, args.eps, state.rope, [&](int32_t head, const HeadSlice& z) {
                         const bool stored = state.kv_slot >= 0;
                         const int32_t kv_head = head - layout.first_k;
                         CodeSlice<KvCode> codes = {};
                         int64_t start = 0;
                         if (stored) {
                           codes = k_codes<Row, KvCode>(z, {args.k_scale, kv_head, state.kv_slot},
                                                        encoder, args.switches);
                           start = k_head_start<KvCode>(state.kv_slot, kv_head, args.num_kv_heads);
                         }
                         store_slice(args.k_cache + start, kKGranuleStride<KvCode>, codes,
                                     state.row.lane, stored);
                       });
}

template <class Row, class KvCode, class IndexCode>
__device__ __forceinline__ void insert_v(const FusedInsertArguments<KvCode, IndexCode>& args,
                                         const PackedRow& layout, const InsertState& state,
                                         HeadReader& reader, const ValueTile<KvCode>& tile) {
  const HeadRange heads = intersect(reader.heads, layout.first_v, layout.first_index_q);
  if (heads.first >= heads.last) return;
  const TileShare share = share_tile(tile, state.row.lane, state.kv_slot);
  const Fp8Encoder encoder = make_fp8_encoder(args.kv_format, args.switches);
  for (int32_t head = heads.first; head < heads.last; ++head) {
    const CodeSlice<uint16_t> v = reader.take(head);
    const int32_t kv_head = head - layout.first_v;
    CodeSlice<KvCode> codes = {};
    if (state.kv_slot >= 0) {
      codes =
          v_codes<Row, KvCode>(v, {args.v_scale, kv_head, state.kv_slot}, encoder, args.switches);
    }
    store_values(tile, share, codes, state.row.lane, args.v_cache, kv_head, args.num_kv_heads);
  }
}

template <class Row, class KvCode, class IndexCode>
__device__ __forceinline__ void insert_index(const FusedInsertArguments<KvCode, IndexCode>& args,
                                             const PackedRow& layout, const InsertState& state,
                                             HeadReader& reader) {
  const Fp8Encoder encoder = make_fp8_encoder(args.index_format, 0);
  const View<IndexCode> index_q =
      args.index_q + state.row.row * args.num_index_heads * kHeadElements;
  norm_rope_heads<Row>(reader, intersect(reader.heads, layout.first_index_q, layout.index_k),
                       args.weights.index_q, args.eps, state.rope,
                       [&](int32_t head, const HeadSlice& z) {
                         store_contiguous(index_q + (head - layout.first_index_q) * kHeadElements,
                                          index_q_codes<Row, IndexCode>(z, encoder, args.switches),
                                          state.row.lane, state.row.present);
                       });
  norm_rope_heads<Row>(reader, intersect(reader.heads, layout.index_k, layout.index_k + 1),
                       args.weights.index_k, args.eps, state.rope,
                       [&](int32_t, const HeadSlice& z) {
                         store_contiguous(args.index_cache + index_row_start(state.index_slot),
                                          index_k_codes<Row, IndexCode>(z, encoder, args.switches),
                                          state.row.lane, state.index_slot >= 0);
                       });
}

template <class Row, class KvCode, class IndexCode>
__device__ __forceinline__ void fused_insert(const FusedInsertArguments<KvCode, IndexCode>& args) {
  ZERODIFF_SHARED(KvCode, tile_rows, kRowsPerBlock * kTilePitch<KvCode>);
  ZERODIFF_SHARED(int64_t, tile_slots, kRowsPerBlock);
  const PackedRow layout = packed_row(args.num_heads, args.num_kv_heads, args.num_index_heads);
  const bool skips_index = (args.switches & kSkipIndexBranch) != 0;
  const HeadRange heads = head_range(skips_index ? layout.first_index_q : layout.index_k + 1);
  if (heads.first >= heads.last) return;
  HeadReader reader = read_heads(args.packed, layout, row_state(args.num_rows), heads, {-1, -1});
  const InsertState state = insert_state<Row>(args, reader.state);
  insert_q<Row>(args, layout, state, reader);
  insert_k<Row>(args, layout, state, reader);
  insert_v<Row>(args, layout, state, reader, {tile_rows, tile_slots});
  insert_index<Row>(args, layout, state, reader);
}

#define ZERODIFF_FUSED_INSERT(name, Row, KvCode, IndexCode)                                \
  ZERODIFF_KERNEL_BOUNDS(name, 256)                                                        \
  (View<const uint16_t> packed, View<const uint16_t> q_norm_weight,                        \
   View<const uint16_t> k_norm_weight, View<const uint16_t> index_q_norm_weight,           \
   View<const uint16_t> index_k_norm_weight, View<const uint16_t> cos_sin_cache,           \
   View<const int64_t> cos_sin_rows, View<const int64_t> positions,                        \
   View<const int64_t> slot_mapping, View<const int64_t> index_slot_mapping,               \
   View<const int32_t> num_tokens, View<const float> k_scale, View<const float> v_scale,   \
   View<uint16_t> q, View<IndexCode> index_q, View<KvCode> k_cache, View<KvCode> v_cache,  \
   View<IndexCode> index_cache, int32_t num_rows, int32_t num_heads, int32_t num_kv_heads, \
   int32_t num_index_heads, int32_t rotary_dim, int64_t num_table_rows, float eps,         \
   int64_t scale_stride, int32_t kv_format, int32_t index_format, uint32_t switches) {     \
    fused_insert<Row, KvCode, IndexCode>(                                                  \
        {packed,                                                                           \
         {q_norm_weight, k_norm_weight, index_q_norm_weight, index_k_norm_weight},         \
         {cos_sin_cache, cos_sin_rows, num_table_rows, rotary_dim},                        \
         positions,                                                                        \
         slot_mapping,                                                                     \
         index_slot_mapping,                                                               \
         num_tokens,                                                                       \
         {k_scale, scale_stride},                                                          \
         {v_scale, scale_stride},                                                          \
         q,                                                                                \
         index_q,                                                                          \
         k_cache,                                                                          \
         v_cache,                                                                          \
         index_cache,                                                                      \
         num_rows,                                                                         \
         num_heads,                                                                        \
         num_kv_heads,                                                                     \
         num_index_heads,                                                                  \
         eps,                                                                              \
         kv_format,                                                                        \
         index_format,                                                                     \
         switches});                                                                       \
  }

ZERODIFF_FUSED_INSERT(fused_insert_bf16_auto_auto, BFloat16, uint16_t, uint16_t)
ZERODIFF_FUSED_INSERT(fused_insert_bf16_auto_fp8, BFloat16, uint16_t, uint8_t)
ZERODIFF_FUSED_INSERT(fused_insert_bf16_fp8_auto, BFloat16, uint8_t, uint16_t)
ZERODIFF_FUSED_INSERT(fused_insert_bf16_fp8_fp8, BFloat16, uint8_t, uint8_t)
ZERODIFF_FUSED_INSERT(fused_insert_fp16_auto_auto, Float16, uint16_t, uint16_t)
ZERODIFF_FUSED_INSERT(fused_insert_fp16_auto_fp8, Float16, uint16_t, uint8_t)
ZERODIFF_FUSED_INSERT(fused_insert_fp16_fp8_auto, Float16, uint8_t, uint16_t)
ZERODIFF_FUSED_INSERT(fused_insert_fp16_fp8_fp8, Float16, uint8_t, uint8_t)

#undef ZERODIFF_FUSED_INSERT

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
