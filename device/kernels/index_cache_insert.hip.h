// Stage index_cache_insert of the unfused path: index K to its slots (numerics.md 6 and 8).
#pragma once

#include "device/kernels/fp32_side_buffer.hip.h"
#include "device/kernels/kv_layout.hip.h"
#include "device/kernels/materialise.hip.h"
#include "device/kernels/packed_rows.hip.h"
#include "device/kernels/slots.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

template <class Code>
struct IndexCacheInsertArguments {
  View<const uint16_t> packed;
  View<const float> k_fp32;  // absent: index K is quantised from the packed row
  View<const int64_t> index_slot_mapping;
  View<const int64_t> positions;
  View<const int32_t> num_tokens;
  View<Code> index_cache;
  int32_t num_rows;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t num_index_heads;
  int32_t index_format;
};

template <class Row, class Code>
__device__ __forceinline__ CodeSlice<Code> stored_index_k_codes(
    const IndexCacheInsertArguments<Code>& args, const CodeSlice<uint16_t>& index_k,
    const RowState& state) {
  if constexpr (sizeof(Code) == sizeof(uint16_t)) {
    return index_k;
  } else {
    const HeadSlice x = args.k_fp32
                            ? load_fp32(args.k_fp32 + fp32_row_start(state, args.num_kv_heads),
                                        args.num_kv_heads, state)
                            : decode_slice<Row>(index_k);
    return quantise(x, make_fp8_encoder(args.index_format, 0));
  }
}

template <class Row, class Code>
__device__ __forceinline__ void index_cache_insert(const IndexCacheInsertArguments<Code>& args) {
  const PackedRow layout = packed_row(args.num_heads, args.num_kv_heads, args.num_index_heads);
  const RowState state = row_state(args.num_rows);
  const int64_t head_start = state.row * layout.pitch + layout.index_k * kHeadElements;
  // On its way while the slot is looked up.
  const CodeSlice<uint16_t> index_k =
      load_slice(args.packed + (head_start + lane_element(state.lane)), state.present);
  const int64_t slot = stored_slot(load_or(args.index_slot_mapping, state, -1), state.row,
                                   load_or(args.positions, state, -1), args.num_tokens[0]);
  store_slice(args.index_cache + (index_row_start(slot) + lane_element(state.lane)),
              stored_index_k_codes<Row>(args, index_k, state), state.lane, slot >= 0);
}

#define ZERODIFF_INDEX_CACHE_INSERT(name, Row, Code)                                              \
  ZERODIFF_KERNEL_BOUNDS(name, 256)                                                               \
  (View<const uint16_t> packed, View<const float> k_fp32, View<const int64_t> index_slot_mapping, \
   View<const int64_t> positions, View<const int32_t> num_tokens, View<Code> index_cache,         \
   int32_t num_rows, int32_t num_heads, int32_t num_kv_heads, int32_t num_index_heads,            \
   int32_t index_format) {                                                                        \
    index_cache_insert<Row, Code>({packed, k_fp32, index_slot_mapping, positions, num_tokens,     \
                                   index_cache, num_rows, num_heads, num_kv_heads,                \
                                   num_index_heads, index_format});                               \
  }

// 16-bit codes are copied, so the model dtype does not matter.
ZERODIFF_INDEX_CACHE_INSERT(index_cache_insert_auto, BFloat16, uint16_t)
ZERODIFF_INDEX_CACHE_INSERT(index_cache_insert_bf16_fp8, BFloat16, uint8_t)
ZERODIFF_INDEX_CACHE_INSERT(index_cache_insert_fp16_fp8, Float16, uint8_t)

#undef ZERODIFF_INDEX_CACHE_INSERT

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
