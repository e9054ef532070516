#include "tools/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "fixtures/error.h"
#include "tools/command_bench.h"
#include "tools/command_devices.h"
#include "tools/command_diff.h"
#include "tools/command_inspect.h"
#include "tools/command_line_options.h"
#include "tools/command_selftest.h"
#include "tools/command_verify.h"
#include "tools/terminal.h"

namespace zerodiff::tools {
namespace {

constexpr const char* kExamples = R"(Examples:
  zerodiff inspect call.h5                        what a capture holds
  zerodiff verify call.h5                         own and captured paths against the reference
  zerodiff verify --device host --wave 64 call.h5
  zerodiff verify --graph --repeat 50 call.h5     ... as replayed graphs, and again and again
  zerodiff bench --shape tokens=65536,cache=fp8   how long they take
  zerodiff verify --paths atom_fused call.h5      ... and fail unless atom_fused is right
  zerodiff verify --paths atom_fused --allow quantize_from=fp32 call.h5
  zerodiff verify --strict --json report.json captures/*.h5
  zerodiff explain call.h5 --path atom_fused      what is wrong with a path, and how it came about
  zerodiff replay call.h5 --path reference -o replayed.h5
  zerodiff diff replayed.h5:reference call.h5:atom_fused

Exit codes: 0 all passed; 1 failed, mistrusted or missing; 2 bad usage or input, or nothing
selected; 3 crash, time-out or infrastructure.)";

constexpr const char* kVerifyExamples = R"(Examples:
  zerodiff verify call.h5                 shows every captured path, gates on the own ones
  zerodiff verify --paths all call.h5     gates on every captured path
  zerodiff verify --paths atom_fused,nvcc_fused --json - call.h5 | jq '.cases[].outcome')";

constexpr const char* kDiffExamples = R"(Examples:
  zerodiff diff old.h5:fused new.h5:fused         is the new build the same to the bit?
  zerodiff diff call.h5:nvcc_fused call.h5:atom_fused)";

constexpr int kFewestReplays = 8;
constexpr int kMostRuns = 100'000;

void add_replaying_options(CLI::App& command, Arguments& arguments) {
  command
      .add_flag("--graph{8}", arguments.graph_replays,
                "Replay the whole layer as a graph with other batches, N times\nfor each own path")
      ->excludes("--stage")
      ->option_text("[=N, 8]");
  command
      .add_option(
          "--repeat", arguments.runs,
          "Run each own path N times, and rows by themselves: all must\ngive the same bytes")
      ->check(CLI::Range(1, kMostRuns))
      ->excludes("--stage")
      ->option_text("N [1]");
}

void add_contract_options(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--allow", arguments.allow,
                  "A choice that is legal, too: quantize_from=fp32,\n"
                  "scale_op=divide, ... (docs/contracts.md)")
      ->allow_extra_args(false)
      ->option_text("ID=VALUE");
  command
      .add_option("--contract", arguments.contract,
                  "Judge captured paths by this contract: a JSON file, or\n"
                  "aiter, atom, sglang, torch or vllm")
      ->option_text("FILE|NAME");
}

void add_stage_options(CLI::App& command, Arguments& arguments) {
  auto* stage = command.add_option("--stage", arguments.stage,
                                   "Run this stage alone, through the reference and both own\n"
                                   "paths: qk_norm_rope, index_score, index_topk,\n"
                                   "sparse_block_table or sparse_attention");
  stage->option_text("NAME")
      ->excludes("--paths")
      ->excludes("--strict")
      ->excludes("--allow")
      ->excludes("--contract");
  command
      .add_option("--stage-inputs", arguments.stage_inputs,
                  "The path whose stored outputs feed the stage")
      ->needs(stage)
      ->option_text("PATH [reference]");
  command
      .add_flag("--index-score", arguments.index_score,
                "Compare the scores of blocks, too: a large output")
      ->excludes(stage)
      ->option_text(" ");
}

// CLI11 would hold the flag's absence against a range, too.
int checked_replays(int replays) {
  if (replays == 0 || (kFewestReplays <= replays && replays <= kMostRuns)) return replays;
  throw Error::usage(
      fmt::format("--graph={}, wanted {} to {} replays", replays, kFewestReplays, kMostRuns));
}

VerifyOptions verify_options(const Arguments& arguments) {
  VerifyOptions options;
  options.gate = parse_path_selection(arguments.paths, arguments.strict);
  options.contract = parse_contract_options(arguments.contract, arguments.allow);
  options.threads = arguments.threads;
  options.device = arguments.device;
  options.wave_width = arguments.wave_width;
  options.index_score = arguments.index_score;
  options.graph_replays = checked_replays(arguments.graph_replays);
  options.runs = arguments.runs;
  options.read = arguments.read();
  if (!arguments.stage.empty()) {
    options.stage = parse_stage_selection(arguments.stage, arguments.stage_inputs);
  }
  return options;
}

void add_verify(CLI::App& app, Arguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand("verify", "Hold captured paths against the reference");
  command->add_option("CAPTURE", arguments.captures, "Captured layer calls")->option_text("...");
  command
      ->add_option("--paths", arguments.paths,
                   "Captured paths that must be right, with commas\n"
                   "between, or 'all'; a capture that lacks one is MISSING")
      ->allow_extra_args(false)
      ->option_text("NAME,...");
  command->add_flag("--strict", arguments.strict, "Every captured path must be right")
      ->option_text(" ");
  add_contract_options(*command, arguments);
  add_stage_options(*command, arguments);
  add_device_options(*command, arguments);
  add_replaying_options(*command, arguments);
  add_thread_option(*command, arguments);
  add_reading_options(*command, arguments);
  add_reporting_options(*command, arguments);
  command->footer(kVerifyExamples);
  command->final_callback([&] {
    action = [&] {
      return run(VerifyCommand{{arguments.captures.begin(), arguments.captures.end()},
                               verify_options(arguments),
                               arguments.reporting()});
    };
  });
}

void add_inspect(CLI::App& app, Arguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand("inspect", "Show what a capture holds");
  command->add_option("FILE", arguments.capture, "A captured layer call")
      ->required()
      ->option_text(" ");
  add_reading_options(*command, arguments);
  add_reporting_options(*command, arguments);
  command->final_callback([&] {
    action = [&] {
      return run(InspectCommand{arguments.capture, arguments.read(), arguments.reporting()});
    };
  });
}

void add_bench(CLI::App& app, Arguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand("bench", "Measure the own paths, stage by stage");
  command->add_option("CAPTURE", arguments.capture, "A captured layer call")->option_text(" ");
  command
      ->add_option("--shape", arguments.shape,
                   "Instead of a capture: tokens=65536,heads=16,cache=fp8,\n"
                   "slots=random,... (docs/commands.md)")
      ->option_text("KEY=VALUE,...");
  command->add_option("--runs", arguments.bench_runs, "Runs of each stage that count")
      ->check(CLI::Range(1, kMostRuns))
      ->option_text("N [50]");
  add_device_options(*command, arguments);
  add_thread_option(*command, arguments);
  add_reading_options(*command, arguments);
  add_reporting_options(*command, arguments);
  command->final_callback([&] {
    action = [&] {
      return run(BenchCommand{arguments.capture,
                              arguments.shape,
                              arguments.device,
                              arguments.wave_width,
                              {.runs = arguments.bench_runs, .threads = arguments.threads},
                              arguments.read(),
                              arguments.reporting()});
    };
  });
}

void add_devices(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("devices", "List where kernels can run");
  command->final_callback([&] { action = [] { return run_devices(); }; });
}

void add_selftest(CLI::App& app, Arguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand(
      "selftest", "Test what every kernel rests on; the first thing on a new machine");
  add_device_options(*command, arguments);
  add_thread_option(*command, arguments);
  add_reporting_options(*command, arguments);
  command->final_callback([&] {
    action = [&] {
      return run(SelftestCommand{arguments.device, arguments.wave_width, arguments.threads,
                                 arguments.reporting()});
    };
  });
}

void add_diff(CLI::App& app, Arguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand("diff", "Assert that two stored paths are identical");
  command->add_option("EXPECTED", arguments.expected, "What is expected, A.h5:PATH")
      ->required()
      ->option_text(" ");
  command->add_option("GOT", arguments.got, "What is held against it, B.h5:PATH")
      ->required()
      ->option_text(" ");
  add_thread_option(*command, arguments);
  add_reading_options(*command, arguments);
  add_reporting_options(*command, arguments);
  command->footer(kDiffExamples);
  command->final_callback([&] {
    action = [&] {
      return run(DiffCommand{parse_stored_path(arguments.expected),
                             parse_stored_path(arguments.got),
                             {arguments.threads, arguments.read()},
                             arguments.reporting()});
    };
  });
}

ExitCode report_error(std::string_view message, ExitCode code) {
  fmt::print(stderr, "zerodiff: {}\n", printable(message));
  return code;
}

// CLI11 throws for --help and --version too, and its messages may have several lines.
ExitCode report_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    std::fflush(stdout);
    app.exit(error);
    return ExitCode::kPassed;
  }
  return report_error(fmt::format("{} (see zerodiff --help)", error.what()), ExitCode::kBadInput);
}

// CLI11 would only say that a subcommand is required.
void check_command_name(const CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const std::string known = fmt::format("{} (see zerodiff --help)", fmt::join(names, ", "));
  if (argc < 2) throw Error::usage("no command given, wanted one of " + known);
  const std::string first = argv[1];
  if (first.starts_with('-') || std::ranges::find(names, first) != names.end()) return;
  throw Error::usage(fmt::format("unknown command '{}', wanted one of {}", first, known));
}

ExitCode parse_and_run(int argc, const char* const* argv) {
  CLI::App app("Zero-difference verification of fused MiniMax-M3 attention pre-processing kernels",
               "zerodiff");
  Arguments arguments;
  Action action;
  app.set_version_flag("--version", std::string("zerodiff ") + ZERODIFF_VERSION);
  app.require_subcommand(1);
  app.footer(kExamples);
  add_verify(app, arguments, action);
  add_inspect(app, arguments, action);
  add_explain(app, arguments, action);
  add_replay(app, arguments, action);
  add_diff(app, arguments, action);
  add_bench(app, arguments, action);
  add_devices(app, action);
  add_selftest(app, arguments, action);
  check_command_name(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return report_parse_error(app, error);
  }
  return action();
}

ExitCode exit_code_of(ErrorKind kind) {
  const bool machine = kind == ErrorKind::kInfrastructure || kind == ErrorKind::kTimeout;
  return machine ? ExitCode::kInfrastructure : ExitCode::kBadInput;
}

}  // namespace

int run_command_line(int argc, const char* const* argv) {
  ExitCode code = ExitCode::kInfrastructure;
  try {
    code = parse_and_run(argc, argv);
  } catch (const Error& error) {
    code = report_error(error.what(), exit_code_of(error.kind()));
  } catch (const std::bad_alloc&) {
    code = report_error("out of memory", ExitCode::kInfrastructure);
  } catch (const std::exception& error) {
    code = report_error(error.what(), ExitCode::kInfrastructure);
  }
  return static_cast<int>(code);
}

}  // namespace zerodiff::tools
