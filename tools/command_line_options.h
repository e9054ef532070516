// What the files of the command line share: where options are stored, and the options of several
// commands. Heavy (CLI11): include it in command_line*.cc only.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fixtures/capture.h"
#include "tools/command_bench.h"
#include "tools/exit_code.h"
#include "tools/output_options.h"

namespace zerodiff::tools {

// What the options of the command line are stored in before a command is made of them.
struct Arguments {
  std::vector<std::string> captures;
  std::vector<std::string> paths;
  std::vector<std::string> allow;
  std::string contract;
  std::string capture;
  std::string path;
  std::string output;
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
  int graph_replays = 0;
  int runs = 1;
  std::string shape;
  std::string explained_output;
  int elements = 3;  // of `explain`, whose history is told
  int bench_runs = BenchOptions{}.runs;
  std::string record;
  std::string run;
  std::string check;
  std::uint64_t max_memory = static_cast<std::uint64_t>(ReadOptions{}.max_memory_bytes);

  ReadOptions read() const { return {.max_memory_bytes = static_cast<std::int64_t>(max_memory)}; }
  OutputOptions reporting() const;
};

using Action = std::function<ExitCode()>;

void add_reading_options(CLI::App& command, Arguments& arguments);    // --max-memory
void add_thread_option(CLI::App& command, Arguments& arguments);      // --threads
void add_reporting_options(CLI::App& command, Arguments& arguments);  // --json, --color, --no-color
void add_device_options(CLI::App& command, Arguments& arguments);     // --device, --wave

// `explain`.
void add_explain(CLI::App& app, Arguments& arguments, Action& action);

// `replay`, which has files of its own: captures, and recordings.
void add_replay(CLI::App& app, Arguments& arguments, Action& action);

}  // namespace zerodiff::tools
