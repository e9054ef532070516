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

// Where the row's K and V go, or its index K: negative if they are not stored. Looked up when they
// are needed, not before: the loop over the q heads has no registers to spare.
template <class KvCode, class IndexCode>
__device__ __forceinline__ int64_t kv_target(const FusedInsertArguments<KvCode, IndexCode>& args,
                                             const RowState& row) {
  const RowState mapped = ZERODIFF_PLANT(slot_duplicate_race, row, planted::even_row(row));
  const int64_t slot = stored_slot(load_or(args.slot_mapping, mapped, -1), row.row,
                                   load_or(args.positions, row, -1), args.num_tokens[0]);
  return kv_slot(slot, args.switches);
}

template <class KvCode, class IndexCode>
__device__ __forceinline__ int64_t index_target(const FusedInsertArguments<KvCode, IndexCode>& args,
                                                const RowState& row) {
  const View<const int64_t> mapping =
      ZERODIFF_PLANT(index_slot_map_swapped, args.index_slot_mapping, args.slot_mapping);
  const int64_t slot = stored_slot(load_or(mapping, row, -1), row.row,
                                   load_or(args.positions, row, -1), args.num_tokens[0]);
  return ZERODIFF_PLANT(index_cache_not_written, slot, int64_t{-1});
}

template <class Row, class KvCode, class IndexCode>
__device__ __forceinline__ void insert_q(const FusedInsertArguments<KvCode, IndexCode>& args,
                                         const PackedRow& layout, HeadReader& reader,
                                         const RopeFactors& rope) {
  const HeadRange heads = intersect(reader.heads, 0, layout.first_k);
  HeadWriter<uint16_t> q = write_heads<uint16_t>(args.q, reader.state, args.num_heads, heads.first);
  norm_rope_heads<Row>(
      reader, heads, args.weights.q, args.eps, rope, [&](int32_t, const HeadSlice& z) {
        const CodeSlice<uint16_t> codes = encode_slice<Row>(z);
        q.put(ZERODIFF_PLANT(rope_qk_cross, codes, planted::crossed(codes, args, layout, reader)));
      });
}

template <class Row, class KvCode, class IndexCode>
__device__ __forceinline__ void insert_k(const FusedInsertArguments<KvCode, IndexCode>& args,
                                         const PackedRow& layout, HeadReader& reader,
                                         const RopeFactors& rope, int64_t slot) {
  const Fp8Encoder encoder = make_fp8_encoder(args.kv_format, args.switches);
  norm_rope_heads<Row>(
      reader, intersect(reader.heads, layout.first_k, layout.first_v),
      ZERODIFF_PLANT(norm_wrong_weight, args.weights.k, args.weights.q), args.eps,
      ZERODIFF_PLANT(rope_writeback_missing, rope, planted::unrotated(rope)),
      [&](int32_t head, const HeadSlice& z) {
        const int32_t kv_head = head - layout.first_k;
        const bool stored = ZERODIFF_PLANT(slot_neg_oob, slot >= 0, reader.state.present);
        CodeSlice<KvCode> codes = {};
        if (stored) {
          codes = k_codes<Row, KvCode>(z, {args.k_scale, kv_head, slot}, encoder, args.switches);
        }
        store_k(args.k_cache, slot, kv_head, args.num_kv_heads, codes, reader.state.lane, stored);
      });
}

// All threads of the work-group must call.
template <class Row, class KvCode, class IndexCode>
__device__ __forceinline__ void insert_v(const FusedInsertArguments<KvCode, IndexCode>& args,
                                         const PackedRow& layout, HeadReader& reader,
                                         const ValueTile<KvCode>& tile, int64_t slot) {
  const HeadRange heads = intersect(reader.heads, layout.first_v, layout.first_index_q);
  if (heads.first >= heads.last) return;
  const HeadLane lane = reader.state.lane;
  const TileShare share = share_tile(tile, lane, slot);
  const Fp8Encoder encoder = make_fp8_encoder(args.kv_format, args.switches);
  for (int32_t head = heads.first; head < heads.last; ++head) {
    const CodeSlice<uint16_t> v = reader.take(head);
    const int32_t kv_head = head - layout.first_v;
    CodeSlice<KvCode> codes = {};
    if (slot >= 0) {
      codes = v_codes<Row, KvCode>(v, {args.v_scale, kv_head, slot}, encoder, args.switches);
    }
    store_values(tile, share, codes, lane, args.v_cache, kv_head, args.num_kv_heads);
  }
}

template <class Row, class KvCode, class IndexCode>
__device__ __forceinline__ void insert_index(const FusedInsertArguments<KvCode, IndexCode>& args,
                                             const PackedRow& layout, HeadReader& reader,
                                             const RopeFactors& rope) {
  const HeadRange q_heads = intersect(reader.heads, layout.first_index_q, layout.index_k);
  const HeadRange k_heads = intersect(reader.heads, layout.index_k, layout.index_k + 1);
  const Fp8Encoder encoder = make_fp8_encoder(args.index_format, 0);
  HeadWriter<IndexCode> index_q = write_heads<IndexCode>(
      args.index_q, reader.state, args.num_index_heads, q_heads.first - layout.first_index_q);
  norm_rope_heads<Row>(reader, q_heads, args.weights.index_q, args.eps, rope,
                       [&](int32_t, const HeadSlice& z) {
                         index_q.put(index_q_codes<Row, IndexCode>(z, encoder, args.switches));
                       });
  norm_rope_heads<Row>(
      reader, k_heads, args.weights.index_k, args.eps, rope, [&](int32_t, const HeadSlice& normed) {
        const HeadSlice z = ZERODIFF_PLANT(
            index_k_unnormed, normed,
            decode_slice<Row>(planted::packed_slice(args, layout, layout.index_k, reader)));
        const int64_t slot = index_target(args, reader.state);
        const HeadLane lane = reader.state.lane;
        store_slice(args.index_cache + (index_row_start(slot) + lane_element(lane)),
                    index_k_codes<Row, IndexCode>(z, encoder, args.switches), lane, slot >= 0);
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
  const RowState row = row_state(args.num_rows);
  HeadReader reader = read_heads(args.packed, layout, row, heads, {-1, -1});
  const int64_t position = load_or(
      args.positions, ZERODIFF_PLANT(rope_position_wrong, row, planted::first_row(row)), -1);
  const RopeFactors rope = load_rope_factors<Row>(args.rope, position, row.lane);
  insert_q<Row>(args, layout, reader, rope);
  if (heads.last > layout.first_k && heads.first < layout.first_index_q) {
    const int64_t slot = kv_target(args, row);
    insert_k<Row>(args, layout, reader, rope, slot);
    insert_v<Row>(args, layout, reader, {tile_rows, tile_slots},
                  ZERODIFF_PLANT(kv_plane_offset, slot, slot - kBlockTokens));
  }
  insert_index<Row>(args, layout, reader, rope);
}

#define ZERODIFF_FUSED_INSERT(name, Row, KvCode, IndexCode)                                \
  ZERODIFF_KERNEL_RESIDENT(name, 256, 4)                                                   \
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
