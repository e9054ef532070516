#include "device/paths/path_launches.h"

#include <utility>

namespace zerodiff::device {

std::string_view name_of(PathKind kind) {
  return kind == PathKind::fused ? "fused" : "unfused";
}

Outputs download_outputs(const PathLaunches& launches, const ResidentLaunchList& resident) {
  Outputs outputs;
  for (const PathLaunches::Result& result : launches.results) {
    const ElementType type = launches.list.buffer(result.buffer).type;
    Tensor tensor = Tensor::allocate(type, result.shape);
    resident.download(result.buffer, tensor.bytes());
    outputs.*result.field = std::move(tensor);
  }
  return outputs;
}

}  // namespace zerodiff::device
