#include "tools/command_inspect.h"

#include "tools/inspect_capture.h"
#include "tools/print_json_inspect.h"
#include "tools/print_terminal_inspect.h"

namespace zerodiff::tools {

ExitCode run(const InspectCommand& command) {
  command.output.check();
  const Inspection inspection = inspect_capture(command.capture, command.read);
  command.output.write_report(print_inspection(inspection, command.output.painter()));
  command.output.write_json(print_json(inspection));
  return ExitCode::kPassed;
}

}  // namespace zerodiff::tools
