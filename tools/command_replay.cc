#include "tools/command_replay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "fixtures/error.h"
#include "tools/atomic_file.h"
#include "tools/progress.h"
#include "tools/terminal.h"

namespace zerodiff::tools {
namespace {

void check_path(const std::string& path) {
  const auto known = own_path_names();
  if (std::ranges::find(known, path) != known.end()) return;
  throw Error::usage(
      fmt::format("--path {}: unknown path (known: {})", path, fmt::join(known, ", ")));
}

std::string describe_outputs(const Outputs& outputs) {
  std::vector<std::string_view> names;
  for (const OutputField& field : kOutputFields) {
    if ((outputs.*field.tensor).present()) names.push_back(field.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

ExitCode run(const ReplayCommand& command) {
  check_path(command.path);
  if (!command.output.empty()) check_writable(command.output, "-o");
  if (command.output.empty() && command.options.record.empty()) {
    throw Error::usage("replay: nothing to write, wanted -o FILE or --record DIR");
  }
  Outputs outputs;
  {
    Progress progress;
    progress.now(command.capture.string() + ": reading the call");
    const CaptureReader reader(command.capture, command.read);
    progress.now(command.capture.string() + ": running " + command.path);
    outputs = run_own_path(command.path, reader.call(), command.options);
  }
  if (command.output.empty()) {
    write_stdout(wrapped(fmt::format("{}: ", printable(command.options.record)),
                         "recorded the launches of " + command.path));
    return ExitCode::kPassed;
  }
  add_path(command.capture, command.output, {command.path, &outputs, {}});
  write_stdout(
      wrapped(fmt::format("{}: ", printable(command.output.string())),
              fmt::format("added /outputs/{}: {}", command.path, describe_outputs(outputs))));
  return ExitCode::kPassed;
}

}  // namespace zerodiff::tools
