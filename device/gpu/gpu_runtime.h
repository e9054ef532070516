// The few runtime calls that CUDA and HIP share, under one name each, with errors as Error.
// Include it in .cc and .cu files of device/gpu/
// only, which are compiled once for each runtime (gpu_namespace.h).
#pragma once

#include <string>

#include "device/gpu/gpu_namespace.h"
#include "fixtures/error.h"

#if defined(ZERODIFF_GPU_HIP)
#include <hip/hip_runtime_api.h>
#define ZERODIFF_GPU_NAME(name) hip##name
#else
#include <cuda_runtime_api.h>
#define ZERODIFF_GPU_NAME(name) cuda##name
#endif

namespace zerodiff::device {
inline namespace ZERODIFF_GPU_RUNTIME {

using GpuStatus = ZERODIFF_GPU_NAME(Error_t);
using GpuStream = ZERODIFF_GPU_NAME(Stream_t);
using GpuGraph = ZERODIFF_GPU_NAME(Graph_t);
using GpuGraphExec = ZERODIFF_GPU_NAME(GraphExec_t);
using GpuEventHandle = ZERODIFF_GPU_NAME(Event_t);
#if defined(ZERODIFF_GPU_HIP)
using GpuProperties = hipDeviceProp_t;
#else
using GpuProperties = cudaDeviceProp;
#endif

#if defined(ZERODIFF_GPU_HIP)
inline constexpr const char* kGpuBackendName = "hip";
#else
inline constexpr const char* kGpuBackendName = "cuda";
#endif

// Throws Error (infrastructure) that names the call, the runtime's text and the place.
inline void check_gpu(GpuStatus status, const char* call, const char* file, int line) {
  if (status == ZERODIFF_GPU_NAME(Success)) return;
  throw Error::infrastructure(std::string(kGpuBackendName) + ": " + call,
                              std::string(ZERODIFF_GPU_NAME(GetErrorString)(status)) + " at " +
                                  file + ":" + std::to_string(line));
}

// ZERODIFF_GPU_CALL(Malloc, &pointer, bytes) is cudaMalloc or hipMalloc, checked.
#define ZERODIFF_GPU_CALL(name, ...)                                                              \
  ::zerodiff::device::check_gpu(ZERODIFF_GPU_NAME(name)(__VA_ARGS__), #name "(" #__VA_ARGS__ ")", \
                                __FILE__, __LINE__)

}  // namespace ZERODIFF_GPU_RUNTIME
}  // namespace zerodiff::device
