#include "tools/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "fixtures/error.h"
#include "tools/command_devices.h"
#include "tools/command_diff.h"
#include "tools/command_explain.h"
#include "tools/command_inspect.h"
#include "tools/command_replay.h"
#include "tools/command_verify.h"
#include "tools/terminal.h"

namespace zerodiff::tools {
namespace {

constexpr const char* kExamples = R"(Examples:
  zerodiff inspect call.h5                        what a capture holds
  zerodiff verify call.h5                         own and captured paths against the reference
  zerodiff verify --device host --wave 64 call.h5
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

constexpr int kMostThreads = 1024;
constexpr int kMostElements = 4096;
constexpr std::int64_t kLargestMemory = std::int64_t{1} << 50;

// What the options of the command line are stored in before a command is made of them.
struct Arguments {
  std::vector<std::string> captures;
  std::vector<std::string> paths;
  std::vector<std::string> allow;
  std::string contract;
  std::string capture;
  std::string path;
  std::string output;
  std::string explained_output;
  int elements = 3;
  std::string expected;
  std::string got;
  std::string json;
  std::string color = "auto";
  std::string stage;
  std::string stage_inputs;
  bool index_score = false;
  bool strict = false;
  bool no_color = false;
  int threads = 0;
  std::string device = "auto";
  int wave_width = 32;
  std::string record;
  std::uint64_t max_memory = static_cast<std::uint64_t>(ReadOptions{}.max_memory_bytes);

  ReadOptions read() const { return {.max_memory_bytes = static_cast<std::int64_t>(max_memory)}; }
  OutputOptions reporting() const {
    static const std::map<std::string, ColorMode> kModes{
        {"auto", ColorMode::automatic}, {"always", ColorMode::always}, {"never", ColorMode::never}};
    return {json, no_color ? ColorMode::never : kModes.at(color)};
  }
};

void add_reading_options(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--max-memory", arguments.max_memory,
                  "Refuse datasets that take more: bytes, or 512MiB, 4G")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{1}, static_cast<std::uint64_t>(kLargestMemory)))
      ->option_text("SIZE [16GiB]");
}

void add_thread_option(CLI::App& command, Arguments& arguments) {
  command.add_option("--threads", arguments.threads, "Threads to use; 0 for one a core")
      ->check(CLI::Range(0, kMostThreads))
      ->option_text("N [0]");
}

void add_reporting_options(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--json", arguments.json,
                  "Also write the report as JSON; '-': print it in place of\nthe table")
      ->option_text("FILE");
  auto* color = command
                    .add_option("--color", arguments.color,
                                "auto (a terminal without NO_COLOR), always or never")
                    ->check(CLI::IsMember({"auto", "always", "never"}))
                    ->option_text("WHEN [auto]");
  command.add_flag("--no-color", arguments.no_color, "The same as --color=never")
      ->excludes(color)
      ->option_text(" ");
}

void add_device_options(CLI::App& command, Arguments& arguments) {
  command
      .add_option(
          "--device", arguments.device,
          "Where unfused and fused run: auto, none, or a name that\n'zerodiff devices' lists")
      ->option_text("NAME [auto]");
  command
      .add_option("--wave", arguments.wave_width, "Lanes of a wave that the host device emulates")
      ->check(CLI::IsMember({32, 64}))
      ->option_text("32|64 [32]");
}

using Action = std::function<ExitCode()>;

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

VerifyOptions verify_options(const Arguments& arguments) {
  VerifyOptions options;
  options.gate = parse_path_selection(arguments.paths, arguments.strict);
  options.contract = parse_contract_options(arguments.contract, arguments.allow);
  options.threads = arguments.threads;
  options.device = arguments.device;
  options.wave_width = arguments.wave_width;
  options.index_score = arguments.index_score;
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

void add_explain(CLI::App& app, Arguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand(
      "explain", "Say what is wrong with the insertion outputs of one path, and how it came about");
  command->add_option("CAPTURE", arguments.capture, "A captured layer call")
      ->required()
      ->option_text(" ");
  command->add_option("--path", arguments.path, "A path of the capture, or an own one")
      ->required()
      ->option_text("NAME");
  command
      ->add_option("--output", arguments.explained_output,
                   "q, index_q, k_cache, v_cache, kv_cache or index_cache")
      ->option_text("NAME [all]");
  command->add_option("--elements", arguments.elements, "Elements whose history is told")
      ->check(CLI::Range(0, kMostElements))
      ->option_text("N [3]");
  command->add_option("--device", arguments.device, "Where an own path runs")
      ->option_text("NAME [auto]");
  add_thread_option(*command, arguments);
  add_reading_options(*command, arguments);
  add_reporting_options(*command, arguments);
  command->final_callback([&] {
    action = [&] {
      return run(ExplainCommand{arguments.capture,
                                {.path = arguments.path,
                                 .output = arguments.explained_output,
                                 .elements = arguments.elements,
                                 .threads = arguments.threads,
                                 .device = arguments.device,
                                 .read = arguments.read()},
                                arguments.reporting()});
    };
  });
}

void add_replay(CLI::App& app, Arguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand(
      "replay", "Run an own path and store its outputs in a copy of the capture");
  command->add_option("CAPTURE", arguments.capture, "A captured layer call")
      ->required()
      ->option_text(" ");
  command->add_option("--path", arguments.path, "The path to run: reference, unfused or fused")
      ->required()
      ->option_text("NAME");
  command
      ->add_option("-o,--output", arguments.output,
                   "The file to write; complete or not at all, may be the\ncapture itself")
      ->option_text("FILE");
  command
      ->add_option(
          "--record", arguments.record,
          "Write the path's launches, with every buffer before and\nafter, to a new folder")
      ->option_text("DIR");
  add_device_options(*command, arguments);
  add_thread_option(*command, arguments);
  add_reading_options(*command, arguments);
  command->final_callback([&] {
    action = [&] {
      return run(ReplayCommand{
          arguments.capture,
          arguments.path,
          arguments.output,
          {arguments.device, arguments.wave_width, arguments.threads, arguments.record},
          arguments.read()});
    };
  });
}

void add_devices(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("devices", "List where kernels can run");
  command->final_callback([&] { action = [] { return run_devices(); }; });
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
  add_devices(app, action);
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
