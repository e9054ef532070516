#include <map>
#include <mutex>

#include "device/gpu/code_objects.h"
#include "device/gpu/gpu_kernels.h"

namespace zerodiff::device {
inline namespace ZERODIFF_GPU_RUNTIME {
namespace {

// "gfx90a:sramecc+:xnack-" is a gfx90a.
std::string_view base_architecture(std::string_view name) {
  return name.substr(0, name.find(':'));
}

// A code object on one GPU.
class Module {
 public:
  explicit Module(const CodeObject& code) {
    ZERODIFF_GPU_CALL(ModuleLoadData, &module_, code.image.data());
  }
  ~Module() { static_cast<void>(hipModuleUnload(module_)); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  GpuFunction find(const std::string& name) const {
    hipFunction_t function = nullptr;
    const hipError_t status = hipModuleGetFunction(&function, module_, name.c_str());
    if (status == hipErrorNotFound) return nullptr;
    check_gpu(status, "ModuleGetFunction", __FILE__, __LINE__);
    return function;
  }

 private:
  hipModule_t module_ = nullptr;
};

const CodeObject& code_for(int gpu) {
  hipDeviceProp_t properties{};
  ZERODIFF_GPU_CALL(GetDeviceProperties, &properties, gpu);
  const std::string_view wanted = base_architecture(properties.gcnArchName);
  for (const CodeObject& code : code_objects()) {
    if (code.architecture == wanted) return code;
  }
  throw Error::infrastructure("hip:" + std::to_string(gpu), "the GPU is a " + std::string(wanted) +
                                                                ", this build has code for " +
                                                                compiled_architectures());
}

// Modules are never unloaded: a function may be wanted until the program ends, and by then the
// runtime may be gone.
const Module& module_of(int gpu) {
  static std::mutex mutex;
  static auto& modules = *new std::map<int, Module>;
  const std::lock_guard lock(mutex);
  const auto known = modules.find(gpu);
  if (known != modules.end()) return known->second;
  return modules.try_emplace(gpu, code_for(gpu)).first->second;
}

}  // namespace

std::string compiled_architectures() {
  std::string names;
  for (const CodeObject& code : code_objects()) {
    names += (names.empty() ? "" : ", ") + std::string(code.architecture);
  }
  return names;
}

GpuFunction gpu_kernel(std::string_view name) {
  int gpu = 0;
  ZERODIFF_GPU_CALL(GetDevice, &gpu);
  return module_of(gpu).find(std::string(name));
}

// A work-group gets what the hardware has without being asked for it.
void allow_lds(GpuFunction, std::int64_t) {}

void launch_gpu_kernel(GpuFunction function, const Launch& launch, void** values,
                       GpuStream stream) {
  ZERODIFF_GPU_CALL(ModuleLaunchKernel, function, launch.grid.x, launch.grid.y, launch.grid.z,
                    launch.block.x, launch.block.y, launch.block.z,
                    static_cast<unsigned>(launch.lds_bytes), stream, values, nullptr);
}

}  // namespace ZERODIFF_GPU_RUNTIME
}  // namespace zerodiff::device
