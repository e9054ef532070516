#include "tools/verify_capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include "compare/build_choices.h"
#include "compare/case_verdict.h"
#include "compare/fp8_contract.h"
#include "compare/not_exercised.h"
#include "compare/slot_map.h"
#include "fixtures/error.h"
#include "reference/layer.h"
#include "tools/describe_call.h"
#include "tools/judge_captured_path.h"
#include "tools/judge_device_paths.h"
#include "tools/open_device.h"
#include "tools/own_path.h"
#include "tools/rerun.h"

namespace zerodiff::tools {
namespace {

using compare::CaseReport;
using compare::Outcome;

compare::Fp8ContractReport gating(compare::Fp8ContractReport report, bool gates) {
  for (compare::Fp8TensorReport& tensor : report.tensors) tensor.gates = gates;
  return report;
}

// What the reference makes of the call under a contract that is not the call's own, which captured
// paths are then held against; nothing if it is.
std::optional<Outputs> under_other_contract(const LayerCall& call,
                                            const compare::AllowedChoices& allowed,
                                            const VerifyOptions& options, const OnStep& on_step) {
  const reference::Choices contract = compare::contract_choices(allowed);
  if (compare::as_declared(contract, call.config)) return std::nullopt;
  on_step("running the reference under the contract");
  return reference::run_layer(
      call, contract, {.threads = options.threads, .keep_index_score = options.index_score});
}

void judge_paths(CaptureReader& reader, const Outputs& declared, const VerifyOptions& options,
                 const OnStep& on_step, CaseResult& result) {
  const LayerCall& call = reader.call();
  const compare::AllowedChoices allowed = options.contract.allowed(call.config);
  std::optional<Outputs> other;
  if (!reader.path_names().empty()) {
    other = under_other_contract(call, allowed, options, on_step);
  }
  const Outputs& reference = other ? *other : declared;
  Outputs got;
  for (const std::string& path : reader.path_names()) {
    on_step("judging " + path);
    got = reader.read_path(path, std::move(got));
    const bool gates = options.gate.gates(path);
    const CapturedPath captured{captured_label(path), &got, &reader.claims(path), gates};
    const bool compared =
        judge_captured_path(call, reference, captured, allowed, options.threads, result.report);
    if (gates && compared) result.gated_paths.push_back(path);
  }
}

// What was asked for and is not there: a path, or anything in it that could be compared.
std::string describe_lacking(const CaseResult& result, const PathSelection& gate) {
  std::string lacking = gate.lacking(result.path_names);
  for (const std::string& path : result.path_names) {
    if (!gate.gates(path) || std::ranges::binary_search(result.gated_paths, path)) continue;
    if (!lacking.empty()) lacking += "; ";
    lacking += "no output of " + path + " could be compared";
  }
  return lacking;
}

compare::CaseVerdict verdict_of(const CaseResult& result, const PathSelection& gate) {
  compare::CaseVerdict verdict = compare::case_verdict(result.report);
  const std::string lacking = describe_lacking(result, gate);
  if (verdict.outcome == Outcome::failed) {
    if (!lacking.empty()) verdict.reason += "; " + lacking;
    return verdict;
  }
  if (!lacking.empty()) return {Outcome::missing, lacking};
  // Without a device nothing is compared; the reference has run and kept its own contract.
  return verdict.outcome == Outcome::skipped ? compare::CaseVerdict{} : verdict;
}

// A slot buffer that sends rows where they must not go is a fault to report, not an input to
// refuse, though no path can be run on it.
std::optional<Outputs> run_reference(const LayerCall& call, const reference::LayerOptions& options,
                                     CaseReport& report) {
  try {
    return reference::run_layer(call, {}, options);
  } catch (const Error& error) {
    if (report.slot_map.verdict != compare::SlotMapVerdict::not_equivalent) throw;
    report.outcome = Outcome::failed;
    report.reason = fmt::format("slot map not equivalent: {}; no path could be judged: {}",
                                report.slot_map.reason, error.what());
    report.not_exercised = compare::not_exercised(call, {});
    return std::nullopt;
  }
}

void decide(const PathSelection& gate, CaseResult& result) {
  auto [outcome, reason] = verdict_of(result, gate);
  result.report.outcome = outcome;
  result.report.reason = std::move(reason);
}

// The outputs that feed the stage; nothing if the reference could not make them.
std::optional<Outputs> stage_inputs(CaptureReader& reader, const VerifyOptions& options,
                                    CaseReport& report) {
  if (options.stage->inputs.empty()) return Outputs{};
  if (options.stage->inputs != kReferencePath) {
    return reader.read_path(name_of_captured(options.stage->inputs));
  }
  return run_reference(reader.call(), {.threads = options.threads, .keep_index_score = true},
                       report);
}

void judge_one_stage(CaptureReader& reader, device::Backend* backend, const VerifyOptions& options,
                     const OnStep& on_step, CaseResult& result) {
  const StageSelection& stage = *options.stage;
  if (backend == nullptr) {
    throw Error::usage(
        fmt::format("--stage {}: needs a device, --device {} is none", stage.name, options.device));
  }
  result.stage = stage.name;
  result.stage_inputs = stage.inputs;
  const std::optional<Outputs> inputs = stage_inputs(reader, options, result.report);
  if (!inputs) return;
  try {
    judge_stage(reader.call(), stage, {*inputs, "/outputs/" + name_of_captured(stage.inputs)},
                *backend, options.threads, on_step, result.report);
  } catch (const Error& error) {
    throw error.inside(result.report.capture);
  }
  decide(options.gate, result);
}

void judge(CaptureReader& reader, const VerifyOptions& options, const OnStep& on_step,
           CaseResult& result) {
  const LayerCall& call = reader.call();
  CaseReport& report = result.report;
  report.warnings = reader.warnings();
  report.slot_map = compare::slot_map_report(call);
  const auto backend = open_device(options.device, options.wave_width, options.threads);
  if (options.stage) return judge_one_stage(reader, backend.get(), options, on_step, result);
  on_step("running the reference");
  const std::optional<Outputs> reference = run_reference(
      call, {.threads = options.threads, .keep_index_score = options.index_score}, report);
  if (!reference) return;
  report.fp8_contract =
      gating(compare::fp8_contract_report(call, {{std::string(kReferencePath), &*reference}},
                                          options.threads),
             true);
  report.not_exercised = compare::not_exercised(call, report.fp8_contract);
  if (backend) {
    judge_device_paths(call, *reference, *backend,
                       {.threads = options.threads,
                        .index_score = options.index_score,
                        .graph_replays = options.graph_replays,
                        .runs = options.runs},
                       on_step, report);
  }
  judge_paths(reader, *reference, options, on_step, result);
  report.warnings = reader.warnings();
  decide(options.gate, result);
}

void open_and_judge(const std::filesystem::path& file, const VerifyOptions& options,
                    const OnStep& on_step, CaseResult& result) {
  on_step("reading the call");
  CaptureReader reader(file, options.read);
  result.call = describe_call(reader.call());
  result.path_names = reader.path_names();
  judge(reader, options, on_step, result);
}

Outcome outcome_of(ErrorKind kind) {
  if (kind == ErrorKind::kTimeout) return Outcome::timed_out;
  return kind == ErrorKind::kInfrastructure ? Outcome::crashed : Outcome::invalid_input;
}

}  // namespace

std::string options_of(const VerifyOptions& options) {
  std::string text = options.gate.as_options();
  const auto add = [&](const std::string& option) {
    if (!text.empty()) text += ' ';
    text += option;
  };
  if (const std::string contract = options.contract.as_options(); !contract.empty()) add(contract);
  const VerifyOptions defaults;
  if (options.device != defaults.device) add("--device " + options.device);
  if (options.wave_width != defaults.wave_width) add(fmt::format("--wave {}", options.wave_width));
  if (options.stage) {
    add("--stage " + options.stage->name);
    if (!options.stage->inputs.empty() && options.stage->inputs != kReferencePath) {
      add("--stage-inputs " + shell_quoted(options.stage->inputs));
    }
  }
  if (options.index_score) add("--index-score");
  if (options.graph_replays > 0) add(fmt::format("--graph={}", options.graph_replays));
  if (options.runs != defaults.runs) add(fmt::format("--repeat {}", options.runs));
  if (options.read.max_memory_bytes != ReadOptions{}.max_memory_bytes) {
    add(fmt::format("--max-memory {}", options.read.max_memory_bytes));
  }
  return text;
}

CaseResult verify_capture(const std::filesystem::path& file, const VerifyOptions& options,
                          const OnStep& on_step) {
  const auto start = std::chrono::steady_clock::now();
  CaseResult result;
  result.report.capture = file.string();
  result.rerun = rerun_line("verify", options_of(options), file);
  const auto ended = [&](Outcome outcome, std::string_view reason) {
    result.report.outcome = outcome;
    result.report.reason = reason;
  };
  try {
    open_and_judge(file, options, on_step, result);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUsage) throw;  // true of every capture
    ended(outcome_of(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    ended(Outcome::crashed, "out of memory");
  }
  result.report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace zerodiff::tools
