// One path of a layer call, run once.
#pragma once

#include "device/backend.h"
#include "device/paths/path_launches.h"
#include "fixtures/layer_call.h"

namespace zerodiff::device {

struct PathRun {
  Outputs outputs;  // without any tensor if the backend found faults
  RunReport report;
};

// The launches of either path.
PathLaunches path_launches(PathKind kind, const LayerCall& call, const PathOptions& options = {});

// `call` must be valid (fixtures/layer_call_checks.h). Throws Error: input for a call that is too
// large for a launch, infrastructure if the device fails.
PathRun run_path(const LayerCall& call, PathKind kind, Backend& backend,
                 const PathOptions& options = {});

}  // namespace zerodiff::device
