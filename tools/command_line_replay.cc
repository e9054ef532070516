// The command line of `zerodiff replay`.
#include "fixtures/error.h"
#include "tools/command_line_options.h"
#include "tools/command_recording.h"
#include "tools/command_replay.h"

namespace zerodiff::tools {
namespace {

// What `replay` does with an existing recording takes neither a capture nor a path.
void check_replay_arguments(const Arguments& arguments) {
  const bool recorded = !arguments.run.empty() || !arguments.check.empty();
  if (!recorded && arguments.capture.empty()) {
    throw Error::usage("replay: CAPTURE is required (see zerodiff replay --help)");
  }
  if (!recorded && arguments.path.empty()) {
    throw Error::usage("replay: --path is required (see zerodiff replay --help)");
  }
  if (!recorded && !arguments.json.empty()) {
    throw Error::usage("replay: --json goes with --check");
  }
}

Action replay_action(const Arguments& arguments) {
  check_replay_arguments(arguments);
  if (!arguments.check.empty()) {
    return [&] { return run(CheckRecordingCommand{arguments.check, arguments.reporting()}); };
  }
  if (!arguments.run.empty()) {
    return [&] {
      return run(RunRecordingCommand{arguments.run, arguments.device, arguments.wave_width,
                                     arguments.threads});
    };
  }
  return [&] {
    return run(
        ReplayCommand{arguments.capture,
                      arguments.path,
                      arguments.output,
                      {arguments.device, arguments.wave_width, arguments.threads, arguments.record},
                      arguments.read()});
  };
}

void add_recording_options(CLI::App& command, Arguments& arguments) {
  auto* record =
      command
          .add_option(
              "--record", arguments.record,
              "Write the path's launches, with every buffer before and\nafter, to a new folder")
          ->option_text("DIR");
  auto* run = command
                  .add_option("--run", arguments.run,
                              "Run a recording's launches on the device and write the\n"
                              "results beside it")
                  ->option_text("DIR");
  auto* check = command
                    .add_option("--check", arguments.check,
                                "Hold results beside a recording against the recorded ones")
                    ->option_text("DIR");
  for (auto* option : {record, run, check}) {
    for (auto* other : {record, run, check}) {
      if (option != other) option->excludes(other);
    }
  }
}

}  // namespace

void add_replay(CLI::App& app, Arguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand(
      "replay", "Run an own path and store its outputs in a copy of the capture");
  command->add_option("CAPTURE", arguments.capture, "A captured layer call")->option_text(" ");
  command->add_option("--path", arguments.path, "The path to run: reference, unfused or fused")
      ->option_text("NAME");
  command
      ->add_option("-o,--output", arguments.output,
                   "The file to write; complete or not at all, may be the\ncapture itself")
      ->option_text("FILE");
  add_recording_options(*command, arguments);
  add_device_options(*command, arguments);
  add_thread_option(*command, arguments);
  add_reading_options(*command, arguments);
  add_reporting_options(*command, arguments);
  command->final_callback([&] { action = [&] { return replay_action(arguments)(); }; });
}

}  // namespace zerodiff::tools
