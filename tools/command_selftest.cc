#include "tools/command_selftest.h"

#include "fixtures/error.h"
#include "tools/open_device.h"
#include "tools/progress.h"

namespace zerodiff::tools {

ExitCode run(const SelftestCommand& command) {
  command.output.check();
  const auto backend = open_device(command.device, command.wave_width, command.threads);
  if (backend == nullptr) {
    throw Error::usage("selftest: needs a device, --device " + command.device + " is none");
  }
  const std::string device = device_name(command.device);
  device::SelftestReport report;
  {
    Progress progress;
    progress.now(device + ": testing");
    report = run_selftest(*backend);
  }
  command.output.write_json(print_json(report, device));
  command.output.write_report(print_terminal(report, device, command.output.painter()));
  return report.passed() ? ExitCode::kPassed : ExitCode::kFailed;
}

}  // namespace zerodiff::tools
