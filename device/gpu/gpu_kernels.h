// Kernels of a GPU by name: functions of the program with CUDA, of a code object with HIP.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "device/gpu/gpu_runtime.h"
#include "device/launch_list.h"

namespace zerodiff::device {
inline namespace ZERODIFF_GPU_RUNTIME {

#if defined(ZERODIFF_GPU_HIP)
using GpuFunction = hipFunction_t;
#else
using GpuFunction = const void*;
#endif

// What the build's kernels are compiled for: "sm_90", "gfx90a, gfx940".
std::string compiled_architectures();

// A kernel for the current GPU; null if there is none of that name. Throws Error (infrastructure)
// if the build has no code for this GPU.
GpuFunction gpu_kernel(std::string_view name);

// Lets the kernel be launched with so much dynamic LDS.
void allow_lds(GpuFunction function, std::int64_t bytes);

// Enqueues the launch; `values` are pointers to its arguments. Throws Error (infrastructure).
void launch_gpu_kernel(GpuFunction function, const Launch& launch, void** values, GpuStream stream);

}  // namespace ZERODIFF_GPU_RUNTIME
}  // namespace zerodiff::device
