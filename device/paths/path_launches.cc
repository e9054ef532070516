#include "device/paths/path_launches.h"

#include <algorithm>
#include <utility>

namespace zerodiff::device {
namespace {

// The front of each of `slices` equal parts of `source`.
void copy_fronts(const Tensor& source, std::int64_t slices, Tensor& target) {
  const auto parts = static_cast<std::size_t>(slices);
  const std::size_t from = source.size_bytes() / parts;
  const std::size_t to = target.size_bytes() / parts;
  for (std::size_t i = 0; i < parts; ++i) {
    std::ranges::copy(source.bytes().subspan(i * from, to),
                      target.bytes().subspan(i * to, to).begin());
  }
}

}  // namespace

std::string_view name_of(PathKind kind) {
  return kind == PathKind::fused ? "fused" : "unfused";
}

Outputs download_outputs(const PathLaunches& launches, const ResidentLaunchList& resident) {
  Outputs outputs;
  for (const PathLaunches::Result& result : launches.results) {
    const BufferDescription& buffer = launches.list.buffer(result.buffer);
    Tensor tensor = Tensor::allocate(buffer.type, result.shape);
    if (tensor.size() == buffer.count) {
      resident.download(result.buffer, tensor.bytes());
    } else {
      Tensor whole = Tensor::allocate(buffer.type, {buffer.count});
      resident.download(result.buffer, whole.bytes());
      copy_fronts(whole, result.slices, tensor);
    }
    outputs.*result.field = std::move(tensor);
  }
  return outputs;
}

}  // namespace zerodiff::device
