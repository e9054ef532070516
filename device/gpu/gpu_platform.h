// The GPU runtimes of this build, chosen from at run time. The only header of device/gpu/ that says
// nothing about a runtime: what is outside of the folder includes this one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/backend.h"

namespace zerodiff::device {

struct GpuInfo {
  std::string name;          // "NVIDIA H200"
  std::string architecture;  // "sm_90", "gfx942"
  std::size_t memory_bytes = 0;
  int wave_width = 32;
  int driver_version = 0;  // as the runtime numbers it
};

struct GpuPlatform {
  std::string_view name{};      // "cuda", "hip"
  std::string code{};           // what kernels were compiled for: "gfx90a, gfx940"
  std::vector<GpuInfo> gpus{};  // as the runtime counts them; empty without a GPU or a driver
  std::string trouble{};        // why there are none, in the runtime's words
  // Throws Error: infrastructure if there is no such GPU, or no code for it in this build.
  std::unique_ptr<Backend> (*open)(int index) = nullptr;
};

// CUDA first; empty in a build for the host alone. Looks for GPUs at each call.
std::vector<GpuPlatform> gpu_platforms();

}  // namespace zerodiff::device
