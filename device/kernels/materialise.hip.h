// From z to what leaves a kernel: tensors and cache codes (numerics.md sections 5 and 6).
#pragma once

#include "device/kernels/quantiser.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// index_q: the model dtype, or fp8 at unit scale, as the index cache.
template <class Row, class Code>
__device__ __forceinline__ CodeSlice<Code> index_q_codes(const HeadSlice& z,
                                                         const Fp8Encoder& encoder,
                                                         uint32_t switches) {
  if constexpr (sizeof(Code) == sizeof(uint16_t)) {
    return encode_slice<Row>(z);
  } else {
    return quantise(switches & kIndexQFromModelDtype ? round_slice<Row>(z) : z, encoder);
  }
}

// What K and index K are quantised from: z, or MD(z).
template <class Row>
__device__ __forceinline__ HeadSlice quantised_value(const HeadSlice& z, uint32_t switches) {
  const bool from_fp32 = (switches & kQuantizeFromFp32) != 0;
  return ZERODIFF_PLANT(fp8_rounding_chain, from_fp32, !from_fp32) ? z : round_slice<Row>(z);
}

template <class Row, class Code>
__device__ __forceinline__ CodeSlice<Code> index_k_codes(const HeadSlice& z,
                                                         const Fp8Encoder& encoder,
                                                         uint32_t switches) {
  if constexpr (sizeof(Code) == sizeof(uint16_t)) {
    return encode_slice<Row>(z);
  } else {
    return quantise(quantised_value<Row>(z, switches), encoder);
  }
}

// One row's head of K or V, on its way to a cache slot that is not negative.
struct CacheTarget {
  ScaleTable scales;  // unused by 16-bit caches
  int32_t kv_head;
  int64_t slot;
};

template <class Row, class Code>
__device__ __forceinline__ CodeSlice<Code> k_codes(const HeadSlice& z, const CacheTarget& target,
                                                   const Fp8Encoder& encoder, uint32_t switches) {
  if constexpr (sizeof(Code) == sizeof(uint16_t)) {
    return encode_slice<Row>(z);
  } else {
    return quantise(quantised_value<Row>(z, switches),
                    scale_factor(target.scales, target.kv_head, target.slot, switches), encoder);
  }
}

// V is copied bit by bit into 16-bit caches.
template <class Row, class Code>
__device__ __forceinline__ CodeSlice<Code> v_codes(const CodeSlice<uint16_t>& v,
                                                   const CacheTarget& target,
                                                   const Fp8Encoder& encoder, uint32_t switches) {
  if constexpr (sizeof(Code) == sizeof(uint16_t)) {
    return v;
  } else {
    const ScaleFactor factor = scale_factor(target.scales, target.kv_head, target.slot, switches);
    return quantise(decode_slice<Row>(v),
                    ZERODIFF_PLANT(scale_write_read_asymmetry, factor, planted::unit_scale(factor)),
                    encoder);
  }
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
