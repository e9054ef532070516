// Stage reshape_and_cache of the unfused path: K and V to their pages (numerics.md 6 to 8).
#pragma once

#include "device/kernels/fp32_side_buffer.hip.h"
#include "device/kernels/materialise.hip.h"
#include "device/kernels/packed_rows.hip.h"
#include "device/kernels/value_tile.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

template <class Code>
struct ReshapeAndCacheArguments {
  View<const uint16_t> packed;
  View<const float> k_fp32;  // absent: K is quantised from the packed row
  View<const int64_t> kv_slots;
  ScaleTable k_scale;
  ScaleTable v_scale;
  View<Code> k_cache;
  View<Code> v_cache;
  int32_t num_rows;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t num_index_heads;
  int32_t kv_format;
  uint32_t switches;
};

// The codes of a k head that is in the model dtype already.
template <class Row, class Code>
__device__ __forceinline__ CodeSlice<Code> stored_k_codes(
    const ReshapeAndCacheArguments<Code>& args, const CodeSlice<uint16_t>& k,
    const CacheTarget& target, const Fp8Encoder& encoder, const RowState& state) {
  if constexpr (sizeof(Code) == sizeof(uint16_t)) {
    return k;
  } else {
    const HeadSlice x = args.k_fp32
                            ? load_fp32(args.k_fp32 + fp32_row_start(state, args.num_kv_heads),
                                        target.kv_head, state)
                            : decode_slice<Row>(k);
    return quantise(x, scale_factor(target.scales, target.kv_head, target.slot, args.switches),
                    encoder);
  }
}

// One kv head of a row.
struct KvHead {
  CodeSlice<uint16_t> k;
  CodeSlice<uint16_t> v;
};

// `row` is this lane's place in the packed row.
__device__ __forceinline__ KvHead load_kv_head(View<const uint16_t> row, const PackedRow& layout,
                                               int32_t kv_head, bool present) {
  return {load_slice(row + (layout.first_k + kv_head) * kHeadElements, present),
          load_slice(row + (layout.first_v + kv_head) * kHeadElements, present)};
}

template <class Row, class Code>
__device__ __forceinline__ void cache_head(const ReshapeAndCacheArguments<Code>& args,
                                           const RowState& state, const ValueTile<Code>& tile,
                                           TileShare share, int64_t slot, int32_t kv_head,
                                           const KvHead& head) {
  CodeSlice<Code> k = {};
  CodeSlice<Code> v = {};
  if (slot >= 0) {
    const Fp8Encoder encoder = make_fp8_encoder(args.kv_format, args.switches);
    k = stored_k_codes<Row>(args, head.k, {args.k_scale, kv_head, slot}, encoder, state);
    v = v_codes<Row, Code>(head.v, {args.v_scale, kv_head, slot}, encoder, args.switches);
  }
  store_k(args.k_cache, slot, kv_head, args.num_kv_heads, k, state.lane, slot >= 0);
  store_values(tile, share, v, state.lane, args.v_cache, kv_head, args.num_kv_heads);
}

template <class Row, class Code>
__device__ __forceinline__ void reshape_and_cache(const ReshapeAndCacheArguments<Code>& args) {
  ZERODIFF_SHARED(Code, tile_rows, kRowsPerBlock * kTilePitch<Code>);
  ZERODIFF_SHARED(int64_t, tile_slots, kRowsPerBlock);
  const ValueTile<Code> tile = {tile_rows, tile_slots};
  const PackedRow layout = packed_row(args.num_heads, args.num_kv_heads, args.num_index_heads);
  const HeadRange heads = head_range(args.num_kv_heads);
  if (heads.first >= heads.last) return;
  const RowState state = row_state(args.num_rows);
  const View<const uint16_t> row =
      args.packed + (state.row * layout.pitch + lane_element(state.lane));
  // The heads are on their way while the slots are looked up, and later ones while earlier ones are
  // stored.
  KvHead next = load_kv_head(row, layout, heads.first, state.present);
  const int64_t slot = load_or(args.kv_slots, state, -1);
  const TileShare share = share_tile(tile, state.lane, slot);
  for (int32_t kv_head = heads.first; kv_head < heads.last; ++kv_head) {
    const KvHead head = next;
    if (kv_head + 1 < heads.last) next = load_kv_head(row, layout, kv_head + 1, state.present);
    cache_head<Row>(args, state, tile, share, slot, kv_head, head);
  }
}

#define ZERODIFF_RESHAPE_AND_CACHE(name, Row, Code)                                              \
  ZERODIFF_KERNEL_BOUNDS(name, 256)                                                              \
  (View<const uint16_t> packed, View<const float> k_fp32, View<const int64_t> kv_slots,          \
   View<const float> k_scale, View<const float> v_scale, View<Code> k_cache, View<Code> v_cache, \
   int32_t num_rows, int32_t num_heads, int32_t num_kv_heads, int32_t num_index_heads,           \
   int64_t scale_stride, int32_t kv_format, uint32_t switches) {                                 \
    reshape_and_cache<Row, Code>({packed,                                                        \
                                  k_fp32,                                                        \
                                  kv_slots,                                                      \
                                  {k_scale, scale_stride},                                       \
                                  {v_scale, scale_stride},                                       \
                                  k_cache,                                                       \
                                  v_cache,                                                       \
                                  num_rows,                                                      \
                                  num_heads,                                                     \
                                  num_kv_heads,                                                  \
                                  num_index_heads,                                               \
                                  kv_format,                                                     \
                                  switches});                                                    \
  }

// 16-bit codes are copied, so the model dtype does not matter.
ZERODIFF_RESHAPE_AND_CACHE(reshape_and_cache_auto, BFloat16, uint16_t)
ZERODIFF_RESHAPE_AND_CACHE(reshape_and_cache_bf16_fp8, BFloat16, uint8_t)
ZERODIFF_RESHAPE_AND_CACHE(reshape_and_cache_fp16_fp8, Float16, uint8_t)

#undef ZERODIFF_RESHAPE_AND_CACHE

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
