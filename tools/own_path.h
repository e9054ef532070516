// The paths that this build can run itself, by name.
#pragma once

#include <span>
#include <string_view>

#include "fixtures/layer_call.h"

namespace zerodiff::tools {

inline constexpr std::string_view kReferencePath = "reference";

std::span<const std::string_view> own_path_names();

// Runs the path on a valid call. `name` is one of own_path_names(). Throws Error (kInput) for a
// graph-safe slot buffer that sends rows where they must not go.
Outputs run_own_path(std::string_view name, const LayerCall& call, int threads);

}  // namespace zerodiff::tools
