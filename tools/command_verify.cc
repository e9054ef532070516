#include "tools/command_verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <exception>
#include <future>
#include <set>
#include <span>
#include <string>
#include <thread>

#include "fixtures/error.h"
#include "tools/open_device.h"
#include "tools/print_json.h"
#include "tools/print_terminal.h"
#include "tools/progress.h"
#include "tools/rerun.h"

namespace zerodiff::tools {
namespace {

using compare::Outcome;

// What went wrong is also an error line, for whoever reads only standard error or JSON.
void report_unjudged(const compare::CaseReport& report) {
  if (exit_code_of(report.outcome) < ExitCode::kBadInput) return;
  fmt::print(stderr, "zerodiff: {}\n", printable(report.reason));
}

void report(const VerifyCommand& command, const CaseResult& result, const Painter& paint) {
  report_unjudged(result.report);
  command.output.write_report(print_case(result, paint));
}

CaseResult judge(const VerifyCommand& command, std::size_t index, const std::string& device,
                 const OnStep& on_step) {
  VerifyOptions options = command.options;
  options.device = device;
  CaseResult result = verify_capture(command.captures[index], options, on_step);
  // Which device of several it was must not show.
  result.rerun = rerun_line("verify", options_of(command.options), command.captures[index]);
  return result;
}

std::vector<CaseResult> judge_one_by_one(const VerifyCommand& command, const std::string& device,
                                         const Painter& paint) {
  std::vector<CaseResult> cases;
  Progress progress;
  for (std::size_t i = 0; i < command.captures.size(); ++i) {
    const auto on_step = [&](const std::string& step) {
      progress.now(command.captures[i].filename().string() + ": " + step);
    };
    cases.push_back(judge(command, i, device, on_step));
    progress.clear();
    report(command, cases.back(), paint);
  }
  return cases;
}

// Each device takes the next capture when it is done with one; reports come in the captures' order.
std::vector<CaseResult> judge_in_parallel(const VerifyCommand& command,
                                          const std::vector<std::string>& devices,
                                          const Painter& paint) {
  std::vector<std::promise<CaseResult>> results(command.captures.size());
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> workers;
  for (const std::string& device : devices) {
    workers.emplace_back([&, device] {
      for (std::size_t i = next++; i < results.size(); i = next++) {
        try {
          results[i].set_value(judge(command, i, device, [](const std::string&) {}));
        } catch (...) {
          results[i].set_exception(std::current_exception());
        }
      }
    });
  }
  std::vector<CaseResult> cases;
  for (std::promise<CaseResult>& result : results) {
    cases.push_back(result.get_future().get());
    report(command, cases.back(), paint);
  }
  return cases;
}

std::vector<CaseResult> judge_captures(const VerifyCommand& command, const Painter& paint) {
  const std::vector<std::string> devices = split_devices(command.options.device);
  if (devices.size() == 1) return judge_one_by_one(command, devices.front(), paint);
  return judge_in_parallel(command, devices, paint);
}

// Why nothing was selected, or empty. Captures that could not be read may hold anything: with one
// of them among the cases nothing is said, and the exit code tells of it already.
std::string nothing_selected(std::span<const CaseResult> cases, const PathSelection& gate) {
  std::set<std::string> known;
  bool any_compared = false;
  for (const CaseResult& result : cases) {
    if (result.report.outcome == Outcome::invalid_input) return {};
    if (result.report.outcome == Outcome::crashed) return {};
    if (result.report.outcome == Outcome::timed_out) return {};
    known.insert(result.path_names.begin(), result.path_names.end());
    any_compared |= !result.gated_paths.empty();
  }
  const std::string known_list = known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "));
  for (const std::string& name : gate.names) {
    if (known.contains(name)) continue;
    return fmt::format("--paths {}: no capture has a path of that name (there are: {})", name,
                       known_list);
  }
  if (gate.asks_for_paths() && !any_compared) {
    return fmt::format("{}: no output of any capture could be compared (paths: {})",
                       gate.as_options(), known_list);
  }
  return {};
}

ExitCode worst_exit_code(std::span<const CaseResult> cases) {
  ExitCode worst = ExitCode::kPassed;
  for (const CaseResult& result : cases) {
    worst = worse_of(worst, exit_code_of(result.report.outcome));
  }
  return worst;
}

}  // namespace

ExitCode exit_code_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::passed:
    case Outcome::skipped:
      return ExitCode::kPassed;
    case Outcome::failed:
    case Outcome::mistrusted:
    case Outcome::missing:
      return ExitCode::kFailed;
    case Outcome::invalid_input:
      return ExitCode::kBadInput;
    case Outcome::crashed:
    case Outcome::timed_out:
      return ExitCode::kInfrastructure;
  }
  return ExitCode::kInfrastructure;
}

ExitCode run(const VerifyCommand& command) {
  if (command.captures.empty()) throw Error::usage("verify: no capture given");
  command.output.check();
  const Painter paint = command.output.painter();
  const std::vector<CaseResult> cases = judge_captures(command, paint);
  command.output.write_report(print_summary(cases, paint));
  command.output.write_json(print_json("verify", device_name(command.options.device), cases));
  const std::string nothing = nothing_selected(cases, command.options.gate);
  if (nothing.empty()) return worst_exit_code(cases);
  fmt::print(stderr, "zerodiff: {}\n", nothing);
  return worse_of(worst_exit_code(cases), ExitCode::kBadInput);
}

}  // namespace zerodiff::tools
