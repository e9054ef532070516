// When two accesses to one element collide: the rules, on stamps alone (access_stamp.h).
//
// `self` is the stamp of the access that is being made, `old` or `writers` or `readers` the word
// that earlier ones left behind. For LDS only the words of the running group mean anything.
//
//   write, write   different values by two work-items: in a buffer always (whoever reads the result
//                  later sees whichever came last), in LDS unless a barrier lies between
//   read, write    by two work-items, unless a barrier of their group lies between; a write of the
//                  value that was there already disturbs nobody
//
// One word keeps one writer: of several that wrote the same value the last may read it back.
#pragma once

#include "device/host/access_stamp.h"
#include "device/host/memory_region.h"

namespace zerodiff::device {
inline namespace host {

// Whether the word is of the running launch (for LDS: of the running group).
template <MemorySpace kSpace>
constexpr bool is_current(Stamp word, Stamp self) {
  return same_epoch(word, self) && (kSpace == MemorySpace::buffer || same_block(word, self));
}

// Whether an element of a region that starts unwritten has a value by now.
template <MemorySpace kSpace>
constexpr bool is_written(Stamp writers, Stamp self) {
  return kSpace == MemorySpace::lds ? is_current<kSpace>(writers, self) : writers != 0;
}

// The readers after a read; `old` itself if it says enough.
template <MemorySpace kSpace>
constexpr Stamp with_reader(Stamp old, Stamp self) {
  if (!is_current<kSpace>(old, self)) return self;
  const Stamp several_blocks = old & kSeveralBlocks;
  if (!same_block(old, self)) return self | kSeveralBlocks;
  if (!same_interval(old, self)) return self | several_blocks;
  if (same_item(old, self) || (old & kSeveralThreads) != 0) return old;
  return self | several_blocks | kSeveralThreads;
}

// The writers after a write; `changes`: the element had no value, or another one, before.
template <MemorySpace kSpace>
constexpr Stamp with_writer(Stamp old, Stamp self, bool changes) {
  const Stamp word = self | (changes ? kChanged : 0);
  if (!is_current<kSpace>(old, self)) return word;
  if (kSpace == MemorySpace::lds && !same_interval(old, self)) return word;
  const Stamp flags = old & (kShared | kRewritten | kChanged);
  if (!same_item(old, self)) return word | flags | kShared;
  return word | flags | (changes ? kRewritten : 0);
}

template <MemorySpace kSpace>
constexpr bool read_collides(Stamp writers, Stamp self) {
  return is_current<kSpace>(writers, self) && (writers & kChanged) != 0 &&
         !ordered_by_barrier(writers, self) && !same_item(writers, self);
}

template <MemorySpace kSpace>
constexpr bool write_collides_with_readers(Stamp readers, Stamp self, bool changes) {
  if (!changes || !is_current<kSpace>(readers, self)) return false;
  if ((readers & kSeveralBlocks) != 0 || !same_block(readers, self)) return true;
  if (!same_interval(readers, self)) return false;
  return (readers & kSeveralThreads) != 0 || !same_item(readers, self);
}

template <MemorySpace kSpace>
constexpr bool write_collides_with_writers(Stamp writers, Stamp self, bool changes) {
  if (!is_current<kSpace>(writers, self)) return false;
  if (kSpace == MemorySpace::lds && !same_interval(writers, self)) return false;
  if ((writers & kShared) != 0) return changes;
  // Equal values do not help if the other one wrote something else in between.
  return !same_item(writers, self) && (changes || (writers & kRewritten) != 0);
}

}  // namespace host
}  // namespace zerodiff::device
