// The options of `zerodiff explain`.
#include "tools/command_explain.h"
#include "tools/command_line_options.h"

namespace zerodiff::tools {
namespace {

constexpr int kMostElements = 4096;

}  // namespace

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

}  // namespace zerodiff::tools
