// Kernels of the GPU backend by name.
#pragma once

#include <string_view>

namespace zerodiff::device {
inline namespace gpu {

// The function to hand to the runtime's LaunchKernel; null if there is no kernel of that name.
const void* gpu_kernel(std::string_view name);

}  // namespace gpu
}  // namespace zerodiff::device
