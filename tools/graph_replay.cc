#include "tools/graph_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>

#include "device/paths/attention_buffers.h"
#include "device/paths/run_path.h"
#include "tools/graph_batch.h"

namespace zerodiff::tools {
namespace {

using device::PathLaunches;
using device::ResidentLaunchList;

// Both are ordinary numbers in every cache format, and so are their inverses: what attention makes
// of filled pools stays finite.
constexpr std::byte kFill{0x35};

struct CacheField {
  std::string_view name;
  Tensor LayerCall::*before;
  Tensor Outputs::*after;
};
constexpr std::array<CacheField, 4> kCaches{
    {{"k_cache", &LayerCall::k_cache, &Outputs::k_cache},
     {"v_cache", &LayerCall::v_cache, &Outputs::v_cache},
     {"kv_cache", &LayerCall::kv_cache, &Outputs::kv_cache},
     {"index_cache", &LayerCall::index_cache, &Outputs::index_cache}}};

void fill_caches(LayerCall& call, std::byte fill) {
  for (const CacheField& cache : kCaches) std::ranges::fill((call.*cache.before).bytes(), fill);
}

// Results that no launch may touch past the live rows.
bool ends_at_live_rows(Tensor Outputs::*field) {
  return field == &Outputs::topk_index || field == &Outputs::sparse_block_table ||
         field == &Outputs::sparse_context_lens || field == &Outputs::attn_output;
}

using Bytes = std::vector<std::byte>;

class LayerReplay {
 public:
  LayerReplay(const LayerCall& call, device::PathKind kind, device::Backend& backend,
              const GraphReplayOptions& options)
      : call_(call),
        kind_(kind),
        backend_(backend),
        options_(options),
        captured_(graph_batch(changed_call(call, 0), call.config.num_tokens)),
        launches_(path_launches(kind, captured_, path_options())),
        resident_(backend.allocate(launches_.list)) {
    resident_->upload();
    for (const PathLaunches::Result& result : launches_.results) {
      contents_.push_back(content_of(result.buffer));
    }
  }

  // Captures the graph. What the first batch leaves is not looked at, replays are.
  std::string capture() {
    const device::RunReport run = resident_->run();
    if (!run.ok()) return to_string(run.faults.front());
    for (std::size_t i = 0; i < launches_.results.size(); ++i) {
      contents_[i] = content_of(launches_.results[i].buffer);
    }
    return {};
  }

  // What differs from an eager run of the same batch, or empty.
  std::string replay(LayerCall batch) {
    carry_caches(batch);
    std::string difference = replay_on(batch, "");
    for (const std::byte fill : {kFill, ~kFill}) {
      if (!difference.empty()) break;
      LayerCall filled = batch;
      fill_caches(filled, fill);
      difference = replay_on(
          filled, fmt::format(" on caches filled with {:#04x}", std::to_integer<int>(fill)));
    }
    return difference;
  }

 private:
  device::PathOptions path_options() const {
    device::PathOptions options;
    if (options_.attention) options.attention.emplace();
    return options;
  }

  // What the replay before has left.
  void carry_caches(LayerCall& batch) const {
    if (!carried_) return;
    for (const CacheField& cache : kCaches) batch.*cache.before = (*carried_).*cache.after;
  }

  std::string replay_on(const LayerCall& batch, const std::string& where) {
    refill(batch);
    const device::RunReport run = resident_->run();
    if (!run.ok()) return to_string(run.faults.front()) + where;
    device::PathRun eager = run_path(eager_batch(batch), kind_, backend_, path_options());
    if (!eager.report.ok()) return "eager: " + to_string(eager.report.faults.front()) + where;
    const std::string difference = first_difference(eager.outputs);
    if (where.empty()) carried_ = std::move(eager.outputs);
    return difference.empty() ? difference : difference + where;
  }

  void refill(const LayerCall& batch) {
    const auto live = static_cast<std::int32_t>(batch.config.num_tokens);
    upload("num_tokens", std::as_bytes(std::span(&live, 1)));
    upload("qkv", batch.qkv.bytes());
    upload("packed", batch.qkv.bytes());
    for (const InputField& field : kInputFields) {
      const Tensor& content = batch.*field.tensor;
      if (field.tensor == &LayerCall::qkv || !content.present()) continue;
      if (field.tensor == &LayerCall::topk_index) {
        upload(field.name,
               device::with_capacity(content, call_.config.num_kv_heads, call_.capacity()).bytes());
      } else {
        upload(field.name, content.bytes());
      }
    }
  }

  void upload(std::string_view name, std::span<const std::byte> content) {
    if (std::ranges::find(options_.never_refilled, name) != options_.never_refilled.end()) return;
    const auto& buffers = launches_.list.buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const bool inserted_into = buffers[i].role == device::BufferRole::output;
      if (buffers[i].name != name || inserted_into) continue;
      resident_->upload({static_cast<std::uint32_t>(i)}, content);
    }
  }

  Bytes content_of(device::BufferId buffer) const {
    Bytes content(static_cast<std::size_t>(launches_.list.buffer(buffer).size_bytes()));
    resident_->download(buffer, content);
    return content;
  }

  std::string first_difference(const Outputs& eager) {
    std::string difference;
    for (std::size_t i = 0; i < launches_.results.size(); ++i) {
      const PathLaunches::Result& result = launches_.results[i];
      Bytes content = content_of(result.buffer);
      if (difference.empty()) difference = compare_parts(eager, result, contents_[i], content);
      contents_[i] = std::move(content);
    }
    return difference;
  }

  // Each of the buffer's parts begins with the live rows.
  std::string compare_parts(const Outputs& eager, const PathLaunches::Result& result,
                            std::span<const std::byte> before,
                            std::span<const std::byte> content) const {
    const std::span expected = (eager.*result.field).bytes();
    const auto parts = static_cast<std::size_t>(result.slices);
    const std::size_t live = expected.size() / parts;
    const std::size_t whole = content.size() / parts;
    const std::string& name = launches_.list.buffer(result.buffer).name;
    for (std::size_t i = 0; i < parts; ++i) {
      const auto got = content.subspan(i * whole, whole);
      if (!std::ranges::equal(got.first(live), expected.subspan(i * live, live))) {
        return name + " differs from the eager run";
      }
      if (ends_at_live_rows(result.field) &&
          !std::ranges::equal(got.subspan(live), before.subspan(i * whole + live, whole - live))) {
        return name + " was written past the live rows";
      }
    }
    return {};
  }

  const LayerCall& call_;
  device::PathKind kind_;
  device::Backend& backend_;
  const GraphReplayOptions& options_;
  LayerCall captured_;
  PathLaunches launches_;
  std::unique_ptr<ResidentLaunchList> resident_;
  std::vector<Bytes> contents_;     // of the results, after the run before
  std::optional<Outputs> carried_;  // caches that the replay before left
};

// Sizes shrink and grow; the largest comes first and again after each smaller one of a round.
std::int64_t live_rows(std::int64_t tokens, int replay) {
  const std::array<std::int64_t, 8> counts{tokens,
                                           tokens / 2,
                                           std::min<std::int64_t>(1, tokens),
                                           std::max<std::int64_t>(0, tokens - 1),
                                           0,
                                           tokens / 3,
                                           tokens,
                                           (tokens + 1) / 2};
  return counts[static_cast<std::size_t>(replay) % counts.size()];
}

}  // namespace

compare::GraphSafeReport replay_whole_layer(const LayerCall& call, device::PathKind kind,
                                            device::Backend& backend,
                                            const GraphReplayOptions& options) {
  compare::GraphSafeReport report;
  report.path = name_of(kind);
  report.scope = compare::GraphScope::layer;
  LayerReplay layer(call, kind, backend, options);
  std::string difference = layer.capture();
  for (int i = 0; i < options.replays && difference.empty(); ++i) {
    const std::int64_t live = live_rows(call.config.num_tokens, i);
    const bool own = i % 4 == 3;
    report.live_counts.push_back(live);
    difference = layer.replay(
        graph_batch(own ? call : changed_call(call, static_cast<std::uint64_t>(i) + 1), live));
    if (!difference.empty()) {
      difference = fmt::format("replay {}, {} live rows of {}: {}", i + 1, live, call.capacity(),
                               difference);
    }
  }
  report.equivalent = difference.empty();
  report.first_difference = std::move(difference);
  return report;
}

}  // namespace zerodiff::tools
