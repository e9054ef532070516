// The vocabulary of kernels: the only header of the platform that a kernel includes.
//
// A kernel source opens `namespace zerodiff::device { inline namespace ZERODIFF_BACKEND { ... } }`,
// so that the builds of one source by several backends can live in one program. It may use:
//
//   ZERODIFF_KERNEL(name)(parameters) { ... }
//   ZERODIFF_KERNEL_BOUNDS(name, max_threads)(parameters) { ... }
//       A kernel; on GPUs `extern "C" __global__ void name(parameters)`, so a code object holds it
//       under its plain name. max_threads is a literal: the largest block it may be launched with
//       (1024 without BOUNDS). Parameters are View<T> and int32_t, uint32_t, int64_t or float.
//   ZERODIFF_KERNEL_RESIDENT(name, max_threads, resident)(parameters) { ... }
//       As BOUNDS; registers are rationed so that `resident` such groups fit on a compute unit
//       (on AMD GPUs: that many waves on each of its SIMDs, the same for groups of 4 waves).
//   __device__ __forceinline__
//       Both, in this order, on every helper function.
//   View<T>, View<const T>
//       A buffer: a pointer on GPUs (`T* __restrict__`), checked on the host. T is uint8_t,
//       uint16_t, float, int32_t or int64_t (bits; kernels convert formats themselves). Allowed:
//       view[index], view + elements, `if (view)` for a buffer that may be absent, and passing
//       a View<T> where a View<const T> is wanted. Read elements into typed variables
//       (`float x = view[i]`, never `auto`): on the host view[i] is a reference that checks.
//   load16(view, index), store16(view, index, values)
//       One 16-byte access of Vec16<T> {T e[16 / sizeof(T)];}, index in elements. The address must
//       be a multiple of 16 (buffers start on one).
//   ZERODIFF_SHARED(T, name, count);
//   ZERODIFF_DYNAMIC_SHARED(T, name);
//       An LDS array, static (count is a constant) or of the size given at launch, 16-byte
//       aligned, uninitialised. It is a SharedView<T> (pass it on as such); element access, + and
//       load16/store16 work as for a View. T is any scalar. Bytes must be read as the type that
//       they were written as. Several dynamic arrays of one kernel alias each other.
//   threadIdx, blockIdx, blockDim, gridDim
//       .x .y .z, uint32_t each.
//   __syncthreads()
//       By all threads of the block, none of which may have returned, at the same call site.
//   shfl_xor32(value, mask), shfl32(value, lane)
//       Among the 32 lanes of an aligned group of the block, whatever the wave width. mask and lane
//       are in 0..31; value is a float, int32_t, uint32_t or int64_t. All 32 lanes must call, from
//       the same call site; blocks that shuffle are multiples of 32 threads. No memory fence.
//   wave_size()
//       32 or 64, for diagnostics only.
//   bits_as<To>(from)
//       The same bits as another type of the same size.
//   ZERODIFF_UNROLL
//       Before a loop of constant length whose counter indexes arrays that must stay in registers.
//   The C functions fmaf, sqrtf, fabsf, fmaxf, fminf, rintf, ldexpf, isnan of <math.h>.
//
// On the host each of these is checked (device/host/); a breach ends the launch with a KernelFault
// (device/kernel_fault.h). Kernels must not be noexcept.
#pragma once

#if defined(__HIPCC__) || defined(__HIP__)
#define ZERODIFF_BACKEND hip
#include "device/platform/platform_hip.h"
#elif defined(__CUDACC__)
#define ZERODIFF_BACKEND cuda
#include "device/platform/platform_cuda.h"
#else
#define ZERODIFF_BACKEND host
#include "device/platform/platform_host.h"
#endif
