// The kernel vocabulary on the host. Included through platform.hip.h, which documents it.
#pragma once

#include <math.h>
#include <cstdint>
#include <cstring>

#include "device/host/collectives.h"
#include "device/host/shared_memory.h"
#include "device/host/view.h"
#include "device/host/work_item.h"

// NOLINTBEGIN(bugprone-reserved-identifier): the names are HIP's and CUDA's
#define __device__
#define __forceinline__ inline
// NOLINTEND(bugprone-reserved-identifier)

#define ZERODIFF_KERNEL(name) ZERODIFF_KERNEL_BOUNDS(name, 1024)
#define ZERODIFF_KERNEL_BOUNDS(name, max_threads)               \
  inline constexpr unsigned name##_max_threads = (max_threads); \
  inline void name

#define ZERODIFF_UNROLL

#define ZERODIFF_KERNEL_RESIDENT(name, max_threads, resident) \
  ZERODIFF_KERNEL_BOUNDS(name, max_threads)

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
// The declaration object's address is the identity of the array, as the declaration is on a GPU:
// all threads of a group that pass here share it, and each template instance has its own.
#define ZERODIFF_SHARED(T, name, count)                                            \
  static constexpr ::zerodiff::device::host::SharedDeclaration name##_declaration{ \
      #name, sizeof(T), (count), ::zerodiff::device::host::CallSite::here()};      \
  const ::zerodiff::device::host::SharedView<T> name =                             \
      ::zerodiff::device::host::shared_array<T>(name##_declaration)
#define ZERODIFF_DYNAMIC_SHARED(T, name)                                           \
  static constexpr ::zerodiff::device::host::SharedDeclaration name##_declaration{ \
      #name, sizeof(T), ::zerodiff::device::host::SharedDeclaration::kDynamic,     \
      ::zerodiff::device::host::CallSite::here()};                                 \
  const ::zerodiff::device::host::SharedView<T> name =                             \
      ::zerodiff::device::host::shared_array<T>(name##_declaration)

// NOLINTEND(bugprone-macro-parentheses)

namespace zerodiff::device {
inline namespace host {

template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

}  // namespace host
}  // namespace zerodiff::device
