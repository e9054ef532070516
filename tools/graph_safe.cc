#include "tools/graph_safe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "device/paths/run_path.h"
#include "tools/graph_batch.h"

namespace zerodiff::tools {
namespace {

constexpr std::byte kFill{0xA5};

// Gives the resident graph the slots and the live count of another batch.
void refill(device::ResidentLaunchList& resident, const device::LaunchList& list,
            const LayerCall& batch) {
  const auto upload = [&](std::string_view name, std::span<const std::byte> content) {
    for (const device::BufferDescription& buffer : list.buffers()) {
      if (buffer.name == name) resident.upload(list.find(name), content);
    }
  };
  const auto live = static_cast<std::int32_t>(batch.config.num_tokens);
  upload("num_tokens", std::as_bytes(std::span(&live, 1)));
  upload("slot_mapping", batch.slot_mapping.bytes());
  upload("index_slot_mapping", batch.index_slot_mapping.bytes());
  upload("page16_slot_mapping", batch.page16_slot_mapping.bytes());
}

// The name of the first output in which the graph's first rows or caches differ, or empty.
std::string first_difference(const Outputs& eager, const Outputs& graph) {
  for (const OutputField& field : kOutputFields) {
    const Tensor& expected = eager.*field.tensor;
    if (!expected.present()) continue;
    const auto got = (graph.*field.tensor).bytes();
    if (std::memcmp(expected.bytes().data(), got.data(), expected.size_bytes()) == 0) continue;
    return std::string(field.name);
  }
  return {};
}

// Live counts shrink and grow again.
std::vector<std::int64_t> live_counts(std::int64_t tokens) {
  std::vector<std::int64_t> counts{tokens, tokens / 2, 1, 0, tokens};
  std::erase_if(counts, [&](std::int64_t count) { return count > tokens; });
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

}  // namespace

compare::GraphSafeReport graph_safe_insertion(const LayerCall& call, device::PathKind kind,
                                              device::Backend& backend) {
  compare::GraphSafeReport report;
  report.path = name_of(kind);
  const LayerCall captured = graph_batch(call, call.config.num_tokens);
  device::PathOptions options;
  options.cache_fill = kFill;
  const device::PathLaunches launches = path_launches(kind, captured, options);
  const auto resident = backend.allocate(launches.list);
  for (const std::int64_t live : live_counts(call.config.num_tokens)) {
    report.live_counts.push_back(live);
    resident->upload();
    refill(*resident, launches.list, graph_batch(call, live));
    const device::RunReport run = resident->run();
    const device::PathRun eager =
        run_path(eager_batch(graph_batch(call, live)), kind, backend, options);
    std::string difference;
    if (!run.ok() || !eager.report.ok()) {
      difference = to_string((run.ok() ? eager.report : run).faults.front());
    } else {
      difference = first_difference(eager.outputs, download_outputs(launches, *resident));
    }
    if (difference.empty()) continue;
    report.equivalent = false;
    report.first_difference =
        fmt::format("{} live rows of {}: {}", live, call.capacity(), difference);
    break;
  }
  return report;
}

}  // namespace zerodiff::tools
