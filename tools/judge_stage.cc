#include "tools/judge_stage.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "device/paths/attention_inputs.h"
#include "device/paths/attention_stages.h"
#include "device/paths/run_path.h"
#include "fixtures/error.h"
#include "reference/index_score.h"
#include "reference/index_topk.h"
#include "reference/layer.h"
#include "reference/sparse_attention.h"
#include "reference/sparse_block_table.h"
#include "tools/own_path_rows.h"

namespace zerodiff::tools {
namespace {

using device::AttentionStage;
using device::PathKind;

constexpr std::string_view kNormRope = "qk_norm_rope";
constexpr std::array kAttentionStages{AttentionStage::index_score, AttentionStage::index_topk,
                                      AttentionStage::sparse_block_table,
                                      AttentionStage::sparse_attention};
// They read k and index_k before they are stored, or make what is never stored.
constexpr std::array<std::string_view, 3> kUnstored{"slot_mapping", "reshape_and_cache",
                                                    "index_cache_insert"};

// Nothing for qk_norm_rope.
std::optional<AttentionStage> attention_stage(std::string_view name) {
  for (const AttentionStage stage : kAttentionStages) {
    if (name == name_of(stage)) return stage;
  }
  return std::nullopt;
}

std::string known_stages() {
  std::string names(kNormRope);
  for (const AttentionStage stage : kAttentionStages) names += fmt::format(", {}", name_of(stage));
  return names;
}

Outputs only_q(Outputs&& all) {
  Outputs outputs;
  outputs.q = std::move(all.q);
  outputs.index_q = std::move(all.index_q);
  return outputs;
}

void check_call_has(const LayerCall& call, AttentionStage stage) {
  const std::string needed_by = fmt::format("input of {}", name_of(stage));
  if (!call.has_attention_metadata()) {
    throw Error::input("/inputs", needed_by, "no block_table, seq_lens and query_start_loc",
                       "all three");
  }
  if (!call.config.skip_index_branch) return;
  if (stage == AttentionStage::index_score || stage == AttentionStage::index_topk) {
    throw Error::input("/config", "skip_index_branch", "true",
                       fmt::format("false: the call has no stage {}", name_of(stage)));
  }
  if (!call.topk_index.present()) {
    throw Error::input("/inputs/topk_index", needed_by, "none", "an earlier layer's selection");
  }
}

Outputs reference_stage(const LayerCall& call, AttentionStage stage, const Outputs& in,
                        int threads) {
  Outputs out;
  switch (stage) {
    case AttentionStage::index_score:
      out.index_score = reference::index_score(call, in.index_q, in.index_cache, threads);
      break;
    case AttentionStage::index_topk:
      out.topk_index = reference::index_topk(call, in.index_score);
      break;
    case AttentionStage::sparse_block_table: {
      const bool reuses = call.config.skip_index_branch;
      auto made = reference::sparse_block_table(call, reuses ? call.topk_index : in.topk_index);
      out.sparse_block_table = std::move(made.table);
      out.sparse_context_lens = std::move(made.context_lens);
      break;
    }
    case AttentionStage::sparse_attention: {
      const bool joined = call.config.kv_storage == KvStorage::block_contiguous;
      out.attn_output = reference::sparse_attention(
          call, in.q, joined ? in.kv_cache : in.k_cache, joined ? in.kv_cache : in.v_cache,
          {in.sparse_block_table, in.sparse_context_lens}, threads);
      break;
    }
  }
  return out;
}

// A stage, its inputs and the device: runs it, whichever stage it is.
class StageRunner {
 public:
  StageRunner(const LayerCall& call, const StageSelection& selection, const StageInputs& inputs,
              device::Backend& backend, int threads)
      : call_(call),
        stage_(attention_stage(selection.name)),
        inputs_(inputs),
        backend_(backend),
        threads_(threads) {
    if (!stage_) return;
    check_call_has(call, *stage_);
    check_attention_inputs(call, inputs.outputs, options(), inputs.where);
  }

  Outputs run_reference() const {
    if (!stage_) return only_q(reference::run_insertion(call_, {}, threads_));
    return reference_stage(call_, *stage_, inputs_.outputs, threads_);
  }

  device::PathRun run(PathKind kind) const {
    if (stage_) return run_attention_stages(call_, inputs_.outputs, kind, backend_, options());
    device::PathRun run = run_path(call_, kind, backend_);
    run.outputs = only_q(std::move(run.outputs));
    return run;
  }

  // What explains a selection that differs.
  const Tensor* scores() const { return stage_ ? &inputs_.outputs.index_score : nullptr; }

 private:
  device::AttentionOptions options() const {
    device::AttentionOptions options;
    options.first_stage = options.last_stage = *stage_;
    options.keep_index_score = *stage_ == AttentionStage::index_score;
    return options;
  }

  const LayerCall& call_;
  std::optional<AttentionStage> stage_;
  const StageInputs& inputs_;
  device::Backend& backend_;
  int threads_;
};

}  // namespace

StageSelection parse_stage_selection(std::string_view name, std::string_view inputs) {
  for (const std::string_view unstored : kUnstored) {
    if (name != unstored) continue;
    throw Error::usage(
        fmt::format("--stage {}: a capture does not hold what it reads or makes; wanted one of {}",
                    name, known_stages()));
  }
  if (name != kNormRope && !attention_stage(name)) {
    throw Error::usage(
        fmt::format("--stage {}: unknown stage (there are: {})", name, known_stages()));
  }
  if (name == kNormRope && !inputs.empty()) {
    throw Error::usage(fmt::format("--stage-inputs {}: {} reads the call alone", inputs, name));
  }
  if (inputs.empty() && name != kNormRope) inputs = kReferencePath;
  return {.name = std::string(name), .inputs = std::string(inputs)};
}

void judge_stage(const LayerCall& call, const StageSelection& stage, const StageInputs& inputs,
                 device::Backend& backend, int threads,
                 const std::function<void(const std::string&)>& on_step,
                 compare::CaseReport& report) {
  const StageRunner runner(call, stage, inputs, backend, threads);
  on_step("running " + stage.name + " of the reference");
  const Outputs expected = runner.run_reference();
  const compare::CompareOptions options{
      .elements = {.threads = threads}, .scope = compare::Scope::stage, .scores = runner.scores()};
  std::optional<Outputs> unfused;
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    on_step(fmt::format("running {} of {}", stage.name, name_of(kind)));
    std::optional<Outputs> outputs = outputs_or_faults(runner.run(kind), kind, report);
    if (!outputs) continue;
    add_own_rows(call, expected, kReferencePath, *outputs, kind, options, report);
    if (unfused) {
      add_own_rows(call, *unfused, name_of(PathKind::unfused), *outputs, kind, options, report);
    }
    if (kind == PathKind::unfused) unfused = std::move(outputs);
  }
}

}  // namespace zerodiff::tools
