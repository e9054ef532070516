#include "tools/command_explain.h"

#include "tools/print_json_explain.h"
#include "tools/print_terminal_explain.h"

namespace zerodiff::tools {

ExitCode run(const ExplainCommand& command) {
  command.output.check();
  const PathExplanation explanation = explain_capture(command.capture, command.options);
  command.output.write_report(print_explanation(explanation, command.output.painter()));
  command.output.write_json(print_json(explanation));
  return ExitCode::kPassed;
}

}  // namespace zerodiff::tools
