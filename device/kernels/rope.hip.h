// Partial NeoX RoPE of one head (numerics.md section 4).
#pragma once

#include "device/kernels/head_lanes.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// The RoPE table: `table` is [rows, rotary_dim], cosines, then sines. Without `row_positions` row p
// belongs to position p; with it, row i belongs to row_positions[i] (ascending, num_rows of them).
struct RopeTable {
  View<const uint16_t> table;
  View<const int64_t> row_positions;
  int64_t num_rows;
  int32_t rotary_dim;
};

// What turns one row's heads, for this lane's elements. It serves all heads of the row.
struct RopeFactors {
  HeadSlice cosine;
  HeadSlice sine;           // negated in the first half: z = fma(y, cosine, partner * sine)
  int32_t partner_lane[2];  // of elements 0..3 and 4..7, counted in the group of 32
  bool partner_swaps;       // partners of elements 0..3 are elements 4..7 of their lane
  bool rotated;             // whether this lane's elements are below rotary_dim
};

// The row of `position`, or -1 (identity) for position 0 if the table has no row for it: rows
// without a position of their own count as position 0.
__device__ __forceinline__ int64_t rope_row(const RopeTable& rope, int64_t position) {
  const int64_t wanted =
      ZERODIFF_PLANT(rope_table_oob, position < 0 ? int64_t{0} : position, position);
  if (!rope.row_positions) return rope.num_rows == 0 ? -1 : wanted;
  int64_t first = 0;
  int64_t last = rope.num_rows;
  while (first < last) {
    const int64_t middle = first + (last - first) / 2;
    const int64_t found = rope.row_positions[middle];
    if (found < wanted) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  if (first == rope.num_rows) return -1;
  const int64_t found = rope.row_positions[first];
  return found == wanted ? first : -1;
}

__device__ __forceinline__ int32_t rope_partner(int32_t element, int32_t half) {
  if (element >= 2 * half) return element;
  return element < half ? element + half : element - half;
}

template <class Row>
__device__ __forceinline__ RopeFactors load_rope_factors(const RopeTable& rope, int64_t position,
                                                         HeadLane lane) {
  const int32_t rotary_dim =
      ZERODIFF_PLANT(rope_rotary_dim_ignored, rope.rotary_dim, kHeadElements);
  const int32_t half = rotary_dim / 2;
  const int32_t first = lane.lane * kLaneElements;
  RopeFactors factors;
  // rotary_dim is a multiple of 8, so a lane rotates as a whole; half is one of 4, so partners
  // of four neighbours are neighbours.
  factors.rotated = first < rotary_dim;
  factors.partner_swaps = half % kLaneElements != 0;
  for (int32_t quad = 0; quad < 2; ++quad) {
    const int32_t element = first + 4 * quad;
    const int32_t partner = ZERODIFF_PLANT(rope_pair_offset, rope_partner(element, half),
                                           element ^ (kHeadElements / 2));
    factors.partner_lane[quad] = lane.first + partner / kLaneElements;
  }
  const int64_t row = rope_row(rope, position);
  for (int32_t i = 0; i < kLaneElements; ++i) {
    const int32_t element = first + i;
    const bool first_half = ZERODIFF_PLANT(rope_interleave_swap, element < half, element % 2 == 0);
    const int32_t angle = ZERODIFF_PLANT(rope_interleave_swap,
                                         element < half ? element : element - half, element / 2);
    float cosine = 1;
    float sine = 0;
    if (factors.rotated && ZERODIFF_PLANT(rope_table_oob, row >= 0, true)) {
      const int64_t entry = row * rope.rotary_dim + angle;
      cosine = Row::decode(rope.table[entry]);
      sine = Row::decode(rope.table[entry + half]);
    }
    factors.cosine.e[i] = ZERODIFF_PLANT(rope_table_dtype, cosine, planted::as_bfloat16(cosine));
    factors.sine.e[i] = first_half ? -sine : sine;
  }
  return factors;
}

__device__ __forceinline__ HeadSlice rope_partners(const HeadSlice& y, const RopeFactors& factors) {
  HeadSlice partner;
  if (factors.partner_swaps) {
    for (int32_t i = 0; i < kLaneElements; ++i) {
      partner.e[i] = shfl32(y.e[i ^ 4], factors.partner_lane[i / 4]);
    }
  } else {
    for (int32_t i = 0; i < kLaneElements; ++i) {
      const int32_t lane = factors.partner_lane[i / 4];
      partner.e[i] = ZERODIFF_PLANT(divergent_collective, shfl32(y.e[i], lane),
                                    factors.rotated ? shfl32(y.e[i], lane) : 0.0F);
    }
  }
  return partner;
}

// z of numerics.md. All lanes of the group must call.
__device__ __forceinline__ HeadSlice rotate(const HeadSlice& y, const RopeFactors& factors) {
  const HeadSlice partner = rope_partners(y, factors);
  HeadSlice z = y;
  if (factors.rotated) {
    for (int32_t i = 0; i < kLaneElements; ++i) {
      const float other = ZERODIFF_PLANT(rope_interleave_swap, partner.e[i], y.e[i ^ 1]);
      z.e[i] = fmaf(y.e[i], factors.cosine.e[i], other * factors.sine.e[i]);
    }
  }
  return z;
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
