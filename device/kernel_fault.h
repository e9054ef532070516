// What a checking backend found wrong with a kernel.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "device/grid.h"

namespace zerodiff::device {

enum class FaultKind : std::uint8_t {
  partial_collective,  // a shuffle that only some of the 32 lanes reached
  divergent_barrier,   // a barrier that only some threads of the group reached
  invalid_lane,        // a shuffle from a lane or with a mask outside 0..31
  out_of_bounds,       // an access outside of a buffer
  lds_out_of_bounds,   // an access outside of an LDS array
  misaligned_access,   // load16 or store16 at an address that is no multiple of 16
  unwritten_read,      // a read of a buffer element that nobody has written
  lds_unwritten_read,  // a read of an LDS element that this group has not written
  write_conflict,      // two work-items wrote one buffer element with different values in a launch
  buffer_race,         // a buffer element read and written by two work-items, no barrier between
  lds_race,            // an LDS element accessed by two threads, one writing, no barrier between
  lds_capacity,        // LDS arrays larger than a group may have
  kernel_exception,    // a C++ exception left the kernel
  guard_band,          // bytes before or after a buffer changed
};

// "partial_collective", ...
std::string_view name_of(FaultKind kind);

struct KernelFault {
  FaultKind kind = FaultKind::kernel_exception;
  std::string kernel;
  std::uint64_t launch = 0;  // index in the launch list
  Index3 block;
  Index3 thread;
  std::string file;  // the call site in the kernel source; empty for guard_band
  std::uint32_t line = 0;
  std::string detail;  // what, with names and numbers
};

// "kernel NAME, launch 0, block (0,0,0), thread (5,0,0), FILE:LINE: KIND: DETAIL" on one line.
std::string to_string(const KernelFault& fault);

}  // namespace zerodiff::device
