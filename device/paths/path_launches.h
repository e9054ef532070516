// A path of a layer call on a device: its launches, and which buffers are which outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "device/backend.h"
#include "device/launch_list.h"
#include "device/paths/attention_options.h"
#include "fixtures/layer_call.h"

namespace zerodiff::device {

enum class PathKind : std::uint8_t {
  unfused,  // one kernel a stage
  fused,    // one kernel for all insertion stages
};

// "unfused", "fused": also the names of the paths in files and reports.
std::string_view name_of(PathKind kind);

struct PathOptions {
  // Every byte of the K/V and index caches before the launches, instead of the call's content; the
  // call's cache tensors are then not read (a pool filled with 0 is mapped, but never touched).
  std::optional<std::byte> cache_fill;
  // Of q and index_q before the launches: bytes that nobody wrote stay recognisable.
  std::byte output_fill{0xCB};
  // Small calls split their heads over work-groups until there are about this many, so that they
  // fill a GPU. Results do not depend on it.
  std::int64_t wanted_work_groups = 512;
  // The stages after insertion, on what insertion leaves; none: insertion alone. They are left out
  // with a cache_fill, whose bytes are nobody's cache.
  std::optional<AttentionOptions> attention;
};

// The list refers to tensors of the call (LaunchList::add_input): the call must outlive it.
struct PathLaunches {
  // A result of the list: the buffer that holds it, and the tensor to make of it.
  struct Result {
    Tensor Outputs::*field;
    BufferId buffer;
    Shape shape;
    // The buffer has this many equal parts; each gives its front to an equal part of the tensor. (A
    // buffer has rows for the capacity of a graph, a result those of the scheduled tokens.)
    std::int64_t slices = 1;
  };

  LaunchList list;
  std::vector<Result>
      results;  // in the order of kOutputFields; what a path does not have is absent
};

// Copies all results from the device.
Outputs download_outputs(const PathLaunches& launches, const ResidentLaunchList& resident);

}  // namespace zerodiff::device
