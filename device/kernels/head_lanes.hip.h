// How a head of 128 elements lies in lanes: 16 lanes a head, 8 consecutive elements a lane.
//
// An aligned group of 32 lanes holds the same head of two consecutive packed rows. So a 16-bit head
// moves in one 16-byte access a lane, everything that depends on the head alone is uniform in the
// group, and of K caches the two rows fill whole 32-byte sectors. Nothing depends on the wave
// width.
#pragma once

#include "device/kernels/contract.h"
#include "device/kernels/plant.hip.h"
#include "device/platform/platform.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

inline constexpr int32_t kLaneElements = 8;
inline constexpr int32_t kLanesPerHead = kHeadElements / kLaneElements;

struct HeadLane {
  int32_t lane;         // in the head: elements 8*lane .. 8*lane + 7
  int32_t first;        // lane 0 of this head, counted in the group of 32
  int32_t row_in_tile;  // 0..15: the packed row among those of the work-group
};

__device__ __forceinline__ HeadLane head_lane() {
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  HeadLane lane;
  lane.lane = thread % kLanesPerHead;
  lane.first = thread % 32 - lane.lane;
  lane.row_in_tile = thread / kLanesPerHead;
  return lane;
}

// One lane's eight elements as numbers.
struct HeadSlice {
  float e[kLaneElements];
};

// The same as codes of a 16-bit or 8-bit type, packed: the first element lies lowest. Aligned like
// the access that moves it, or compilers would split that.
template <class Code>
struct alignas(kLaneElements * sizeof(Code)) CodeSlice {
  uint32_t words[kLaneElements * sizeof(Code) / sizeof(uint32_t)];
};

// Elements of 16 bytes: x in numerics.md section 8.
template <class Code>
inline constexpr int32_t kGranule = 16 / sizeof(Code);

// The first of this lane's elements, and the granule of 16 bytes that they lie in.
__device__ __forceinline__ int32_t lane_element(HeadLane lane) {
  return lane.lane * kLaneElements;
}
template <class Code>
__device__ __forceinline__ int32_t lane_granule(HeadLane lane) {
  return lane_element(lane) / kGranule<Code>;
}

// This lane's elements, which begin at `place`; zeros unless `present`.
__device__ __forceinline__ CodeSlice<uint16_t> load_slice(View<const uint16_t> place,
                                                          bool present) {
  if (!present) return {};
  return bits_as<CodeSlice<uint16_t>>(load16(place, 0));
}

template <class Row>
__device__ __forceinline__ HeadSlice decode_slice(const CodeSlice<uint16_t>& codes) {
  HeadSlice slice;
  for (int32_t i = 0; i < kLaneElements / 2; ++i) {
    slice.e[2 * i] = Row::decode_low(codes.words[i]);
    slice.e[2 * i + 1] = Row::decode_high(codes.words[i]);
  }
  return slice;
}

// MD(slice).
template <class Row>
__device__ __forceinline__ CodeSlice<uint16_t> encode_slice(const HeadSlice& slice) {
  CodeSlice<uint16_t> codes;
  for (int32_t i = 0; i < kLaneElements / 2; ++i) {
    codes.words[i] = Row::encode_pair(slice.e[2 * i], slice.e[2 * i + 1]);
  }
  return codes;
}

template <class Row>
__device__ __forceinline__ HeadSlice round_slice(const HeadSlice& slice) {
  return decode_slice<Row>(encode_slice<Row>(slice));
}

// Stores this lane's elements, whose granule begins at `place`. All lanes of the group must call;
// only `stored` heads are written.
template <class Out>
__device__ __forceinline__ void store_slice(Out place, const CodeSlice<uint16_t>& codes, HeadLane,
                                            bool stored) {
  if (stored) store16(place, 0, bits_as<Vec16<uint16_t>>(codes));
}

// Two lanes hold the 16 codes of a granule; the even one collects and stores them.
template <class Out>
__device__ __forceinline__ void store_slice(Out place, const CodeSlice<uint8_t>& codes,
                                            HeadLane lane, bool stored) {
  struct alignas(16) Granule {
    uint32_t words[4];
  };
  const Granule granule = {{codes.words[0], codes.words[1], shfl_xor32(codes.words[0], 1),
                            shfl_xor32(codes.words[1], 1)}};
  if (stored && lane.lane % 2 == 0) store16(place, 0, bits_as<Vec16<uint8_t>>(granule));
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
