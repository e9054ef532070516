#include "tools/command_diff.h"

#include <array>

#include "tools/command_verify.h"
#include "tools/open_device.h"
#include "tools/print_json.h"
#include "tools/print_terminal.h"

namespace zerodiff::tools {

ExitCode run(const DiffCommand& command) {
  command.output.check();
  const std::array<CaseResult, 1> cases{diff_paths(command.expected, command.got, command.options)};
  command.output.write_report(print_case(cases[0], command.output.painter()));
  command.output.write_json(print_json("diff", kReferenceDevice, cases));
  return exit_code_of(cases[0].report.outcome);
}

}  // namespace zerodiff::tools
