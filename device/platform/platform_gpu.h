// What the two GPU backends share of the kernel vocabulary; platform.hip.h documents it.
//
// No standard C++ headers with host code: nvcc and hipcc compile this for the device.
#pragma once

#include <math.h>
#include <stdint.h>

#include <type_traits>

#define ZERODIFF_KERNEL(name) extern "C" __global__ void name
#define ZERODIFF_KERNEL_BOUNDS(name, max_threads) \
  extern "C" __global__ void __launch_bounds__(max_threads) name
#define ZERODIFF_KERNEL_RESIDENT(name, max_threads, resident) \
  extern "C" __global__ void __launch_bounds__(max_threads, resident) name

#define ZERODIFF_UNROLL _Pragma("unroll")

#define ZERODIFF_SHARED(T, name, count) __shared__ __attribute__((aligned(16))) T name[count]
// One untyped symbol for all dynamic arrays: differently typed ones of the same name do not link.
#define ZERODIFF_DYNAMIC_SHARED(T, name)                                                  \
  extern __shared__ __attribute__((aligned(16))) unsigned char zerodiff_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(zerodiff_dynamic_shared)

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {

template <class T>
using View = T* __restrict__;
// Another thread writes what this one reads: no __restrict__.
template <class T>
using SharedView = T*;

template <class T>
struct alignas(16) Vec16 {
  T e[16 / sizeof(T)];
};

// A type that both compilers move with one 128-bit instruction.
struct alignas(16) Quad {
  uint32_t x, y, z, w;
};

template <class T>
__device__ __forceinline__ Vec16<std::remove_const_t<T>> load16(T* view, int64_t index) {
  Vec16<std::remove_const_t<T>> values;
  const Quad quad = *reinterpret_cast<const Quad*>(view + index);
  __builtin_memcpy(&values, &quad, sizeof(quad));
  return values;
}

template <class T>
__device__ __forceinline__ void store16(T* view, int64_t index, const Vec16<T>& values) {
  // One number, because nvcc splits a struct's store where it reworks a loop's addresses.
  Quad quad;
  __builtin_memcpy(&quad, &values, sizeof(quad));
  const uint64_t low = quad.x | static_cast<uint64_t>(quad.y) << 32;
  const uint64_t high = quad.z | static_cast<uint64_t>(quad.w) << 32;
  *reinterpret_cast<unsigned __int128*>(view + index) =
      static_cast<unsigned __int128>(high) << 64 | low;
}

template <class To, class From>
__device__ __forceinline__ To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits_as keeps the size");
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
