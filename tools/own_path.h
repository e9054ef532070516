// The paths that this build can run itself, by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/launch_list.h"
#include "fixtures/layer_call.h"

namespace zerodiff::tools {

inline constexpr std::string_view kReferencePath = "reference";

// "reference", and in a build with a device "unfused" and "fused".
std::vector<std::string_view> own_path_names();

// What reports call a captured path: its name, and " (captured)" behind it if an own path has that
// name too. name_of_captured takes it away again.
std::string captured_label(const std::string& path);
std::string name_of_captured(const std::string& label);

struct OwnPathOptions {
  std::string device = "auto";  // of unfused and fused, as open_device takes it
  int wave_width = 32;
  int threads = 0;
  std::string record;  // a folder to write the launches and their buffers to; empty: none
};

// Runs every stage that the call has inputs for. `name` is one of own_path_names(). Throws Error:
// kInput for a graph-safe slot buffer that sends rows where they must not go, kUsage for an unknown
// device or for `record` with the reference, kInfrastructure for a fault in an own kernel.
Outputs run_own_path(std::string_view name, const LayerCall& call, const OwnPathOptions& options);

}  // namespace zerodiff::tools
