#include "tools/bench_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "compare/output_comparison.h"
#include "device/paths/run_path.h"
#include "fixtures/error.h"
#include "reference/layer.h"
#include "tools/bench_work.h"
#include "tools/describe_call.h"
#include "tools/own_path.h"

namespace zerodiff::tools {
namespace {

using device::LaunchList;
using device::PathKind;
using device::ResidentLaunchList;

constexpr int kWarmUp = 5;
constexpr std::int64_t kColdFactor = 4;  // caches between two turns of one set of buffers
constexpr std::int64_t kMostSets = 64;

template <class Sample>
Spread spread_of(int warm_up, int runs, const Sample& sample) {
  for (int i = 0; i < warm_up; ++i) static_cast<void>(sample(i));
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(runs));
  for (int i = 0; i < runs; ++i) times.push_back(sample(warm_up + i));
  std::ranges::sort(times);
  const std::size_t last = times.size() - 1;
  return {times[last / 2], times[(last * 95 + 99) / 100]};
}

std::int64_t bytes_of(const LaunchList& list) {
  return std::accumulate(
      list.buffers().begin(), list.buffers().end(), std::int64_t{0},
      [](std::int64_t sum, const auto& buffer) { return sum + buffer.size_bytes(); });
}

// Sets of one path's buffers that take turns.
class Rotation {
 public:
  Rotation(const LaunchList& list, device::Backend& backend) {
    const std::int64_t wanted = kColdFactor * backend.traits().cache_bytes;
    const std::int64_t size = std::max<std::int64_t>(bytes_of(list), 1);
    const std::int64_t count = std::clamp<std::int64_t>(wanted / size + 2, 2, kMostSets);
    for (std::int64_t i = 0; i < count; ++i) {
      sets_.push_back(backend.allocate(list));
      sets_.back()->upload();
      // What later stages read must be there, and graphs must have been captured.
      const device::RunReport run = sets_.back()->run();
      if (!run.ok()) throw Error::infrastructure("bench", to_string(run.faults.front()));
    }
  }

  int size() const { return static_cast<int>(sets_.size()); }

  Spread time(std::size_t first, std::size_t last, int warm_up, int runs) {
    return spread_of(warm_up, runs, [&](int i) {
      return sets_[static_cast<std::size_t>(i) % sets_.size()]->time_launches(first, last);
    });
  }

 private:
  std::vector<std::unique_ptr<ResidentLaunchList>> sets_;
};

class Bench {
 public:
  Bench(const LayerCall& call, device::Backend& backend, const BenchOptions& options)
      : call_(call),
        backend_(backend),
        options_(options),
        reference_(reference::run_layer(call, {}, {.threads = options.threads})) {
    report_.call = describe_call(call);
    report_.clock = backend.traits().clock;
    report_.peak_fmas_per_second = backend.traits().fmas_per_second;
    report_.runs = options.runs;
  }

  BenchReport run() {
    for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
      check(kind);
      if (!report_.difference.empty()) return std::move(report_);
    }
    time_copy();
    for (const PathKind kind : {PathKind::unfused, PathKind::fused}) time_path(kind);
    return std::move(report_);
  }

 private:
  static device::PathOptions whole_layer() {
    device::PathOptions options;
    options.attention.emplace();
    return options;
  }

  void check(PathKind kind) {
    const device::PathRun run = run_path(call_, kind, backend_, whole_layer());
    if (!run.report.ok()) {
      report_.difference = to_string(run.report.faults.front());
      return;
    }
    const auto comparisons = compare::compare_outputs(
        call_, reference_, std::string(kReferencePath), run.outputs, std::string(name_of(kind)),
        {{.threads = options_.threads}, true, true});
    for (const compare::Comparison& comparison : comparisons) {
      if (comparison.verdict == compare::Verdict::identical) {
        ++report_.compared_outputs;
      } else if (report_.difference.empty()) {
        report_.difference =
            fmt::format("{}: {} differs from the reference in {} of {} elements", name_of(kind),
                        comparison.output, comparison.total.mismatches, comparison.total.elements);
      }
    }
  }

  void time_copy() {
    constexpr std::int64_t kLeast = std::int64_t{32} << 20;
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    const std::int64_t bytes =
        std::clamp(2 * kColdFactor * backend_.traits().cache_bytes, kLeast, kMost);
    LaunchList list;
    const auto from = list.add_scratch("from", ElementType::int64, bytes / 8);
    const auto to = list.add_scratch("to", ElementType::int64, bytes / 8);
    const auto resident = backend_.allocate(list);
    resident->upload();
    report_.copy_bytes = bytes / 8 * 8 * 2;
    report_.copy =
        spread_of(kWarmUp, options_.runs, [&](int) { return resident->time_copy(from, to); });
  }

  void time_path(PathKind kind) {
    const device::PathLaunches launches = path_launches(kind, call_, whole_layer());
    if (launches.list.launches().empty()) return;
    Rotation sets(launches.list, backend_);
    report_.rotated = std::max(report_.rotated, sets.size());
    report_.resident_bytes = std::max(report_.resident_bytes, bytes_of(launches.list));
    report_.warm_up = std::max(report_.warm_up, std::max(kWarmUp, sets.size()));
    StageTime insertion{.path = std::string(name_of(kind)), .stage = "insertion"};
    std::size_t inserted = 0;
    StageTime whole{.path = std::string(name_of(kind)), .stage = "whole path"};
    for (const StageRange& range : stage_ranges(launches.list)) {
      const StageTime stage = time_range(kind, range, sets);
      add(whole, stage);
      if (is_insertion(range.stage)) {
        add(insertion, stage);
        inserted = range.last;
      }
      report_.stages.push_back(stage);
    }
    if (insertion.launches > 1) finish(insertion, 0, inserted, sets);
    if (whole.launches > insertion.launches) {
      finish(whole, 0, launches.list.launches().size(), sets);
    }
  }

  static bool is_insertion(const std::string& stage) {
    return stage == "insertion" || stage == "qk_norm_rope" || stage == "slot_mapping" ||
           stage == "reshape_and_cache" || stage == "index_cache_insert";
  }

  StageTime time_range(PathKind kind, const StageRange& range, Rotation& sets) {
    const StageWork work = work_of(range.stage, call_, reference_);
    return {
        .path = std::string(name_of(kind)),
        .stage = range.stage,
        .launches = static_cast<std::int64_t>(range.last - range.first),
        .time = sets.time(range.first, range.last, std::max(kWarmUp, sets.size()), options_.runs),
        .bytes = work.bytes,
        .fmas = work.fmas};
  }

  static void add(StageTime& sum, const StageTime& stage) {
    sum.launches += stage.launches;
    sum.bytes += stage.bytes;
    sum.fmas += stage.fmas;
  }

  void finish(StageTime& sum, std::size_t first, std::size_t last, Rotation& sets) {
    sum.time = sets.time(first, last, std::max(kWarmUp, sets.size()), options_.runs);
    report_.stages.push_back(sum);
  }

  const LayerCall& call_;
  device::Backend& backend_;
  const BenchOptions& options_;
  Outputs reference_;
  BenchReport report_;
};

}  // namespace

BenchReport bench_call(const LayerCall& call, device::Backend& backend,
                       const BenchOptions& options) {
  return Bench(call, backend, options).run();
}

}  // namespace zerodiff::tools
