// K and V as fp8 codes: the scale contract (numerics.md section 6).
#pragma once

#include "device/kernels/head_lanes.hip.h"
#include "device/kernels/number_formats.hip.h"
#include "device/kernels/slots.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// One of k_scale and v_scale: [1] (head_stride 0), or [nkv, head_stride] by slot before any rebase.
struct ScaleTable {
  View<const float> scales;
  int64_t head_stride;
};

// The scale, or its reciprocal, that one row's head is quantised with.
struct ScaleFactor {
  float factor;
  bool divides;
};

// `slot` is a kv_slot() that is not negative.
__device__ __forceinline__ ScaleFactor scale_factor(const ScaleTable& table, int32_t kv_head,
                                                    int64_t slot, uint32_t switches) {
  const int64_t mapped = switches & kBlockContiguous ? slot_before_rebase(slot) : slot;
  const int32_t scale_head = ZERODIFF_PLANT(scale_index_wrong, kv_head, 0);
  const int64_t entry = table.head_stride == 0 ? 0 : scale_head * table.head_stride + mapped;
  const float stored = table.scales[entry];
  const float scale = ZERODIFF_PLANT(scale_ignored_write, stored, 1.0F);
  const bool divides = (switches & kDivideByScale) != 0;
  ScaleFactor factor;
  factor.divides = ZERODIFF_PLANT(scale_recip_vs_div, divides, !divides);
  factor.factor =
      ZERODIFF_PLANT(scale_inverted, factor.divides, !factor.divides) ? scale : 1.0F / scale;
  return factor;
}

// Unit scale: index tensors.
__device__ __forceinline__ CodeSlice<uint8_t> quantise(const HeadSlice& x,
                                                       const Fp8Encoder& encoder) {
  CodeSlice<uint8_t> codes;
  for (int32_t i = 0; i < 2; ++i) {
    codes.words[i] = encoder.encode_pair(x.e[4 * i], x.e[4 * i + 1]) |
                     encoder.encode_pair(x.e[4 * i + 2], x.e[4 * i + 3]) << 16;
  }
  return codes;
}

__device__ __forceinline__ CodeSlice<uint8_t> quantise(const HeadSlice& x, ScaleFactor scale,
                                                       const Fp8Encoder& encoder) {
  HeadSlice scaled;
  for (int32_t i = 0; i < kLaneElements; ++i) {
    scaled.e[i] = scale.divides ? x.e[i] / scale.factor : x.e[i] * scale.factor;
  }
  return quantise(scaled, encoder);
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
