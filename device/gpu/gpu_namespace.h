// Which runtime a file of device/gpu/ is compiled for: HIP where ZERODIFF_GPU_HIP is defined, else
// CUDA. A program may hold both, so all that depends on the runtime stands in a namespace of its
// own.
#pragma once

#if defined(ZERODIFF_GPU_HIP)
#define ZERODIFF_GPU_RUNTIME hip_runtime
#else
#define ZERODIFF_GPU_RUNTIME cuda_runtime
#endif
