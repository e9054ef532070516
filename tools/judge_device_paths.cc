#include "tools/judge_device_paths.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "compare/output_comparison.h"
#include "compare/poison.h"
#include "compare/write_set.h"
#include "device/paths/run_path.h"
#include "reference/layer.h"
#include "tools/graph_replay.h"
#include "tools/graph_safe.h"
#include "tools/own_path.h"
#include "tools/own_path_rows.h"
#include "tools/path_invariance.h"

namespace zerodiff::tools {
namespace {

using compare::CaseReport;
using device::PathKind;

class DeviceJudge {
 public:
  DeviceJudge(const LayerCall& call, const Outputs& reference, device::Backend& backend,
              const DeviceJudgement& options, CaseReport& report)
      : call_(call), reference_(reference), backend_(backend), options_(options), report_(report) {}

  // The outputs of a path, or nothing and a path fault.
  std::optional<Outputs> run(PathKind kind, const LayerCall& call,
                             const device::PathOptions& options) {
    return outputs_or_faults(run_path(call, kind, backend_, options), kind, report_);
  }

  device::PathOptions whole_layer() const {
    device::PathOptions options;
    if (options_.attention) options.attention.emplace().keep_index_score = options_.index_score;
    return options;
  }

  void compare_with(const Outputs& expected, std::string_view expected_name, const Outputs& got,
                    PathKind kind) {
    add_own_rows(call_, expected, expected_name, got, kind,
                 {.elements = {.threads = options_.threads}}, report_);
  }

  void replay_graphs(PathKind kind) {
    report_.graph_safe.push_back(graph_safe_insertion(call_, kind, backend_));
    if (options_.graph_replays == 0) return;
    report_.graph_safe.push_back(
        replay_whole_layer(call_, kind, backend_,
                           {.replays = options_.graph_replays, .attention = options_.attention}));
  }

  void repeat(PathKind kind, const Outputs& outputs) {
    if (options_.runs < 2) return;
    report_.repeats.push_back(repeat_path(call_, kind, backend_, whole_layer(), options_.runs));
    report_.invariance.push_back(rows_by_themselves(call_, outputs, kind, backend_, whole_layer()));
  }

  void prove_write_set(PathKind kind) {
    constexpr std::byte kFill{0x5A};
    device::PathOptions options;
    options.cache_fill = kFill;
    const auto on_fill = run(kind, call_, options);
    options.cache_fill = ~kFill;
    const auto on_inverse = run(kind, call_, options);
    if (!on_fill || !on_inverse) return;
    auto reports =
        compare::write_set_report(call_, std::string(name_of(kind)), kFill, *on_fill, *on_inverse);
    std::ranges::move(reports, std::back_inserter(report_.write_set));
  }

  void poison(PathKind kind, const LayerCall& poisoned, std::string_view fill) {
    compare::PoisonReport result;
    result.path = name_of(kind);
    result.fill = fill;
    const auto outputs = run(kind, poisoned, whole_layer());
    if (!outputs) return;
    for (Tensor Outputs::*field : {&Outputs::topk_index, &Outputs::sparse_block_table,
                                   &Outputs::sparse_context_lens, &Outputs::attn_output}) {
      if (result.unchanged) check_unchanged(*outputs, field, result);
    }
    report_.poison.push_back(std::move(result));
  }

 private:
  void check_unchanged(const Outputs& got, Tensor Outputs::*field, compare::PoisonReport& result) {
    Outputs expected_one;
    Outputs got_one;
    expected_one.*field = reference_.*field;
    got_one.*field = got.*field;
    const auto comparisons =
        compare::compare_outputs(call_, expected_one, std::string(kReferencePath), got_one,
                                 result.path, {{.threads = options_.threads}});
    for (const compare::Comparison& comparison : comparisons) {
      if (comparison.verdict == compare::Verdict::identical) continue;
      result.unchanged = false;
      result.first_difference = comparison.output + ": " +
                                std::to_string(comparison.total.mismatches) + " of " +
                                std::to_string(comparison.total.elements) + " elements";
    }
  }

  const LayerCall& call_;
  const Outputs& reference_;
  device::Backend& backend_;
  const DeviceJudgement& options_;
  CaseReport& report_;
};

constexpr std::array<PathKind, 2> kPaths{PathKind::unfused, PathKind::fused};

}  // namespace

void judge_device_paths(const LayerCall& call, const Outputs& reference, device::Backend& backend,
                        const DeviceJudgement& options,
                        const std::function<void(const std::string&)>& on_step,
                        CaseReport& report) {
  DeviceJudge judge(call, reference, backend, options, report);
  std::optional<Outputs> unfused;
  for (const PathKind kind : kPaths) {
    on_step("running " + std::string(name_of(kind)));
    std::optional<Outputs> outputs = judge.run(kind, call, judge.whole_layer());
    if (!outputs) continue;
    judge.compare_with(reference, kReferencePath, *outputs, kind);
    if (unfused) judge.compare_with(*unfused, name_of(PathKind::unfused), *outputs, kind);
    on_step("proving the write set of " + std::string(name_of(kind)));
    judge.prove_write_set(kind);
    on_step("replaying graph-safe batches of " + std::string(name_of(kind)));
    judge.replay_graphs(kind);
    on_step("repeating " + std::string(name_of(kind)));
    judge.repeat(kind, *outputs);
    if (kind == PathKind::unfused) unfused = std::move(outputs);
  }
  if (!options.attention || !reference::has_selection(call)) return;
  for (const auto& [fill, name] : {std::pair{compare::PoisonFill::nan, "nan"},
                                   std::pair{compare::PoisonFill::finite, "finite"}}) {
    const LayerCall poisoned = compare::poisoned_call(call, fill);
    for (const PathKind kind : kPaths) {
      on_step("poisoning " + std::string(name_of(kind)));
      judge.poison(kind, poisoned, name);
    }
  }
}

}  // namespace zerodiff::tools
