#include "tools/command_bench.h"

#include <fmt/format.h>

#include "fixtures/error.h"
#include "tools/bench_shape.h"
#include "tools/open_device.h"
#include "tools/print_bench.h"

namespace zerodiff::tools {
namespace {

LayerCall call_of(const BenchCommand& command) {
  if (!command.shape.empty()) return make_bench_call(parse_bench_shape(command.shape));
  const CaptureReader reader(command.capture, command.read);
  return reader.call();
}

}  // namespace

ExitCode run(const BenchCommand& command) {
  if (command.capture.empty() == command.shape.empty()) {
    throw Error::usage("bench: wanted a capture or --shape, and one of them only");
  }
  command.output.check();
  const auto backend = open_device(command.device, command.wave_width, command.options.threads);
  if (backend == nullptr) {
    throw Error::usage(fmt::format("bench: needs a device, --device {} is none", command.device));
  }
  const BenchReport report = bench_call(call_of(command), *backend, command.options);
  const std::string device = device_name(command.device);
  command.output.write_report(print_bench(report, device, command.output.painter()));
  command.output.write_json(print_bench_json(report, device));
  return report.difference.empty() ? ExitCode::kPassed : ExitCode::kFailed;
}

}  // namespace zerodiff::tools
