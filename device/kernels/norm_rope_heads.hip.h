// From a packed head to z: norm and RoPE of the branch that the head belongs to.
#pragma once

#include "device/kernels/gemma_norm.hip.h"
#include "device/kernels/packed_rows.hip.h"
#include "device/kernels/rope.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

struct NormWeights {
  View<const uint16_t> q;
  View<const uint16_t> k;
  View<const uint16_t> index_q;  // the index weights are absent with kSkipIndexBranch
  View<const uint16_t> index_k;
};

// Reads the heads of one branch and gives z of each to sink(head, z). All lanes of the group must
// call, and `sink` is called by all of them.
template <class Row, class Sink>
__device__ __forceinline__ void norm_rope_heads(HeadReader& reader, HeadRange branch,
                                                View<const uint16_t> weight, float eps,
                                                const RopeFactors& factors, Sink sink) {
  if (branch.first >= branch.last) return;
  const HeadSlice gain = load_norm_gain<Row>(weight, reader.state.lane);
  for (int32_t head = branch.first; head < branch.last; ++head) {
    const HeadSlice x = decode_slice<Row>(reader.take(head));
    sink(head, rotate(gemma_norm(x, gain, eps), factors));
  }
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
