#include "tools/command_devices.h"

#include <fmt/format.h>

#include <string>

#include "tools/open_device.h"
#include "tools/terminal.h"

namespace zerodiff::tools {

ExitCode run_devices() {
  std::string text;
  for (const DeviceInfo& device : list_devices()) {
    text += wrapped(fmt::format("{:<8}", device.name), device.description);
  }
  const bool any = !text.empty();
  for (const DeviceInfo& device : list_missing_devices()) {
    text += wrapped(fmt::format("{:<8}", device.name), device.description);
  }
  write_stdout(text.empty() ? "no device: this build has no backend\n" : text);
  return any ? ExitCode::kPassed : ExitCode::kInfrastructure;
}

}  // namespace zerodiff::tools
