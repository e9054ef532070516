// A piece of memory that kernels may access, and the checks of those accesses.
//
// A region is a device buffer during one launch, or an LDS array during one work-group. Elements
// are counted from its base. Every check that fails raises a fault (work_item.h), that is, throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "device/host/call_site.h"

namespace zerodiff::device {
inline namespace host {

enum class MemorySpace : std::uint8_t { buffer, lds };

// What is checked beyond bounds and alignment.
enum class Tracking : std::uint8_t {
  none,     // fully initialised and read-only during the launch
  written,  // read-only during the launch, but elements may never have been written
  races,    // also written: who read and wrote each element is kept
};

struct MemoryRegion {
  MemorySpace space = MemorySpace::buffer;
  Tracking tracking = Tracking::none;
  std::uint32_t element_bytes = 0;
  std::byte* base = nullptr;
  std::int64_t count = 0;         // in elements
  bool starts_unwritten = false;  // nothing may be read before it was written
  // One word an element, 0 where nobody wrote or read yet (access_stamp.h); null with `none`,
  // `readers` with `written` too.
  std::uint64_t* writers = nullptr;
  std::uint64_t* readers = nullptr;
  std::string name;
};

// The region of a buffer argument that is null: no element.
const MemoryRegion& absent_buffer();

enum class Access : std::uint8_t { read, write };

// `first` is relative to the region's base; `count` elements were asked for.
[[noreturn]] void raise_out_of_bounds(const MemoryRegion& region, std::int64_t first,
                                      std::int64_t count, Access access, CallSite site);
[[noreturn]] void raise_misaligned(const MemoryRegion& region, std::int64_t first, Access access,
                                   CallSite site);

// Checks and notes a read of elements inside the bounds of a region with tracking.
void note_read(const MemoryRegion& region, std::int64_t first, std::int64_t count, CallSite site);

// Checks, notes and performs a write of elements inside the bounds of a region that tracks races.
// T is an integer of any size, float or double.
template <class T>
void tracked_write(const MemoryRegion& region, std::int64_t first, std::int64_t count,
                   const T* values, CallSite site);

}  // namespace host
}  // namespace zerodiff::device
