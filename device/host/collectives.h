// Barriers and 32-lane shuffles on the host; platform.hip.h has the contract.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "device/host/call_site.h"
#include "device/host/work_item.h"

namespace zerodiff::device {
inline namespace host {

// Waits for the other 31 lanes and gives back what lane `source` (0..31) of the group brought.
std::uint64_t exchange32(std::uint64_t bits, int source, CallSite site);
[[noreturn]] void raise_invalid_lane(int lane, CallSite site);
// The lane of the calling work-item inside its aligned group of 32.
inline int lane_in_group32() {
  return static_cast<int>(item_stamp & 31);
}

template <class T>
T shfl32(T value, int lane, CallSite site = CallSite::here()) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  if (lane < 0 || lane > 31) [[unlikely]] {
    raise_invalid_lane(lane, site);
  }
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  bits = exchange32(bits, lane, site);
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

template <class T>
T shfl_xor32(T value, int mask, CallSite site = CallSite::here()) {
  return shfl32(value, lane_in_group32() ^ mask, site);
}

void __syncthreads(CallSite site = CallSite::here());  // NOLINT(bugprone-reserved-identifier)

int wave_size();

}  // namespace host
}  // namespace zerodiff::device
