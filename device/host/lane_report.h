// What the lanes of a work-group are doing, and a sentence about a collective that lacks some.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "device/host/call_site.h"

namespace zerodiff::device {
inline namespace host {

enum class LaneState : std::uint8_t {
  unstarted,
  ready,  // waited, may go on
  running,
  at_shuffle,
  at_barrier,
  returned,
};

// Consecutive lanes, the first of them with flat thread number `first`.
struct LaneSpan {
  std::uint32_t first;
  std::span<const LaneState> states;
  std::span<const CallSite> sites;  // where a lane at a collective waits
};

// "reached by threads 0-4,6-31; thread 5 returned", about the collective where lane `waiting` (an
// index into the span) is. `wanted` lanes belong to the collective; those past the span do not
// exist.
std::string describe_partial(const LaneSpan& lanes, std::uint32_t waiting, std::uint32_t wanted);

}  // namespace host
}  // namespace zerodiff::device
