#include "tools/own_path.h"

#include <fmt/format.h>

#include "device/paths/run_path.h"
#include "device/recording.h"
#include "fixtures/error.h"
#include "reference/layer.h"
#include "tools/open_device.h"

namespace zerodiff::tools {
namespace {

device::PathOptions whole_layer() {
  device::PathOptions options;
  options.attention.emplace();
  return options;
}

void throw_if_faulty(std::string_view name, const device::RunReport& report) {
  if (report.ok()) return;
  throw Error::infrastructure(name, to_string(report.faults.front()));
}

Outputs run_on_device(device::PathKind kind, const LayerCall& call, const OwnPathOptions& options) {
  const auto backend = open_device(options.device, options.wave_width, options.threads);
  if (backend == nullptr) {
    throw Error::usage(fmt::format("--path {}: needs a device, --device {} is none", name_of(kind),
                                   options.device));
  }
  if (!options.record.empty()) {
    const device::PathLaunches launches = path_launches(kind, call, whole_layer());
    throw_if_faulty(name_of(kind), record(*backend, launches.list, options.record));
  }
  device::PathRun run = run_path(call, kind, *backend, whole_layer());
  throw_if_faulty(name_of(kind), run.report);
  return std::move(run.outputs);
}

constexpr std::string_view kCapturedMark = " (captured)";

}  // namespace

std::string captured_label(const std::string& path) {
  const bool own = path == kReferencePath || path == name_of(device::PathKind::unfused) ||
                   path == name_of(device::PathKind::fused);
  return own ? path + std::string(kCapturedMark) : path;
}

std::string name_of_captured(const std::string& label) {
  return label.substr(0, label.find(kCapturedMark));
}

std::vector<std::string_view> own_path_names() {
  std::vector<std::string_view> names{kReferencePath};
  if (!list_devices().empty()) {
    names.push_back(name_of(device::PathKind::unfused));
    names.push_back(name_of(device::PathKind::fused));
  }
  return names;
}

Outputs run_own_path(std::string_view name, const LayerCall& call, const OwnPathOptions& options) {
  for (const device::PathKind kind : {device::PathKind::unfused, device::PathKind::fused}) {
    if (name == name_of(kind)) return run_on_device(kind, call, options);
  }
  if (!options.record.empty()) {
    throw Error::usage("--record: the reference has no launches, wanted --path unfused or fused");
  }
  return reference::run_layer(call, {}, {.threads = options.threads});
}

}  // namespace zerodiff::tools
