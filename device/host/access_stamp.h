// Who accessed an element, when: one word.
//
// A stamp names a launch (epoch), a work-group of it, a thread of that and a barrier interval: the
// number of barriers the group had passed. Two accesses of one group in different intervals are
// ordered by a barrier; all others by different threads are not. Words of readers and of writers
// add flags. 0 means: never.
#pragma once

#include <cstdint>

namespace zerodiff::device {
inline namespace host {

using Stamp = std::uint64_t;

inline constexpr int kThreadBits = 10;
inline constexpr int kBlockBits = 26;
inline constexpr int kIntervalBits = 14;
inline constexpr int kEpochBits = 10;
inline constexpr int kBlockShift = kThreadBits;
inline constexpr int kIntervalShift = kBlockShift + kBlockBits;
inline constexpr int kEpochShift = kIntervalShift + kIntervalBits;
inline constexpr int kFlagShift = kEpochShift + kEpochBits;
static_assert(kFlagShift == 60);

inline constexpr std::uint64_t kMaxThreads = std::uint64_t{1} << kThreadBits;
inline constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << kBlockBits;

inline constexpr Stamp kThreadMask = kMaxThreads - 1;
inline constexpr Stamp kBlockMask = (kMaxBlocks - 1) << kBlockShift;
inline constexpr Stamp kIntervalMask = ((Stamp{1} << kIntervalBits) - 1) << kIntervalShift;
inline constexpr Stamp kEpochMask = ((Stamp{1} << kEpochBits) - 1) << kEpochShift;
inline constexpr Stamp kItemMask = kThreadMask | kBlockMask;
inline constexpr Stamp kStampMask = (Stamp{1} << kFlagShift) - 1;

// Flags of a writer word.
inline constexpr Stamp kBusy = Stamp{1} << 60;       // a write is under way
inline constexpr Stamp kChanged = Stamp{1} << 61;    // the element did not have this value before
inline constexpr Stamp kRewritten = Stamp{1} << 62;  // its one writer wrote several values
inline constexpr Stamp kShared = Stamp{1} << 63;     // several work-items wrote it
// Flags of a reader word.
inline constexpr Stamp kSeveralThreads = Stamp{1} << 60;  // in this interval of this group
inline constexpr Stamp kSeveralBlocks = Stamp{1} << 61;   // in this launch

// Epochs of launches. 1 is kept for "in some earlier launch" (host_buffer.h renews the words before
// the counter starts anew), 0 for "never".
inline constexpr std::uint32_t kEarlierEpoch = 1;
inline constexpr std::uint32_t kFirstEpoch = 2;
inline constexpr std::uint32_t kLastEpoch = (1u << kEpochBits) - 1;

// The interval wraps around: only accesses exactly 2^14 barriers apart are mistaken for unordered.
constexpr Stamp make_stamp(std::uint32_t epoch, std::uint64_t block, std::uint64_t interval,
                           std::uint32_t thread) {
  return Stamp{epoch} << kEpochShift | ((interval << kIntervalShift) & kIntervalMask) |
         block << kBlockShift | thread;
}

constexpr bool same_epoch(Stamp a, Stamp b) {
  return ((a ^ b) & kEpochMask) == 0;
}
constexpr bool same_block(Stamp a, Stamp b) {
  return ((a ^ b) & kBlockMask) == 0;
}
constexpr bool same_item(Stamp a, Stamp b) {
  return ((a ^ b) & kItemMask) == 0;
}
constexpr bool same_interval(Stamp a, Stamp b) {
  return ((a ^ b) & kIntervalMask) == 0;
}
constexpr bool ordered_by_barrier(Stamp a, Stamp b) {
  return same_block(a, b) && !same_interval(a, b);
}

constexpr std::uint64_t block_of(Stamp stamp) {
  return (stamp & kBlockMask) >> kBlockShift;
}
constexpr std::uint32_t thread_of(Stamp stamp) {
  return static_cast<std::uint32_t>(stamp & kThreadMask);
}

}  // namespace host
}  // namespace zerodiff::device
