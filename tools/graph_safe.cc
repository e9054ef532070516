#include "tools/graph_safe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "device/paths/run_path.h"
#include "reference/cache_layout.h"

namespace zerodiff::tools {
namespace {

constexpr std::byte kFill{0xA5};

// The first rows of a [T, ...] tensor.
Tensor first_rows(const Tensor& tensor, std::int64_t rows) {
  if (!tensor.present()) return {};
  Shape shape = tensor.shape();
  shape[0] = rows;
  Tensor result = Tensor::allocate(tensor.type(), shape);
  std::ranges::copy(tensor.bytes().first(result.size_bytes()), result.bytes().begin());
  return result;
}

// Entries from `live` on become -1.
Tensor live_slots(const Tensor& slots, std::int64_t live) {
  Tensor result = slots;
  if (!slots.present()) return result;
  std::ranges::fill(result.as<std::int64_t>().subspan(static_cast<std::size_t>(live)), -1);
  return result;
}

Tensor rebased(Tensor slots) {
  for (std::int64_t& slot : slots.as<std::int64_t>()) slot = reference::rebase_slot(slot);
  return slots;
}

// The first `live` rows as a batch of their own, without padding.
LayerCall eager_batch(const LayerCall& call, std::int64_t live) {
  LayerCall batch = call;
  batch.config.batch_mode = BatchMode::eager;
  batch.config.num_tokens = live;
  batch.qkv = first_rows(call.qkv, live);
  batch.positions = first_rows(call.positions, live);
  batch.slot_mapping = first_rows(call.slot_mapping, live);
  batch.index_slot_mapping = first_rows(call.index_slot_mapping, live);
  batch.page16_slot_mapping = {};
  return batch;
}

// The call with `live` scheduled rows out of its capacity.
LayerCall graph_batch(const LayerCall& call, std::int64_t live) {
  LayerCall batch = call;
  batch.config.batch_mode = BatchMode::graph;
  batch.config.num_tokens = live;
  batch.slot_mapping = live_slots(call.slot_mapping, live);
  batch.index_slot_mapping = live_slots(call.index_slot_mapping, live);
  batch.page16_slot_mapping = {};
  if (call.config.kv_storage == KvStorage::block_contiguous) {
    batch.page16_slot_mapping = rebased(batch.slot_mapping);
  }
  return batch;
}

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
    const device::PathRun eager = run_path(eager_batch(call, live), kind, backend, options);
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
