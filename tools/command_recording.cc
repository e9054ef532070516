#include "tools/command_recording.h"

#include <fmt/format.h>

#include "fixtures/error.h"
#include "tools/open_device.h"

namespace zerodiff::tools {

ExitCode run(const RunRecordingCommand& command) {
  const auto backend = open_device(command.device, command.wave_width, command.threads);
  if (backend == nullptr) {
    throw Error::usage(
        fmt::format("replay --run: needs a device, --device {} is none", command.device));
  }
  const std::string folder = command.recording.string();
  const device::RunReport report = run_recording(*backend, command.recording);
  if (!report.ok()) throw Error::infrastructure(folder, to_string(report.faults.front()));
  write_stdout(wrapped(fmt::format("{}: ", printable(folder)),
                       fmt::format("ran the recorded launches on {}, results are beside them",
                                   device_name(command.device))));
  return ExitCode::kPassed;
}

ExitCode run(const CheckRecordingCommand& command) {
  command.output.check();
  const device::RecordingCheck check = device::check_recording(command.recording);
  const std::string folder = command.recording.string();
  command.output.write_json(print_json(check, folder));
  command.output.write_report(print_terminal(check, folder, command.output.painter()));
  return check.ok() ? ExitCode::kPassed : ExitCode::kFailed;
}

}  // namespace zerodiff::tools
