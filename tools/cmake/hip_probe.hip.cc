// Compiled at configure time: what an architecture must be able to do.
#include <hip/hip_runtime.h>

extern "C" __global__ void probe(float* values) {
  const float value = values[threadIdx.x];
  values[threadIdx.x] = sqrtf(value) / __shfl_xor(value, 1, 32);
}
