#include "device/paths/run_path.h"

#include <memory>

#include "device/paths/attention_launches.h"
#include "device/paths/fused_path.h"
#include "device/paths/unfused_path.h"

namespace zerodiff::device {

PathLaunches path_launches(PathKind kind, const LayerCall& call, const PathOptions& options) {
  PathLaunches launches =
      kind == PathKind::fused ? fused_path(call, options) : unfused_path(call, options);
  if (options.attention && !options.cache_fill) {
    append_attention(launches, call, kind, *options.attention);
  }
  return launches;
}

PathRun run_path(const LayerCall& call, PathKind kind, Backend& backend,
                 const PathOptions& options) {
  const PathLaunches launches = path_launches(kind, call, options);
  const std::unique_ptr<ResidentLaunchList> resident = backend.allocate(launches.list);
  resident->upload();
  PathRun run;
  run.report = resident->run();
  if (run.report.ok()) run.outputs = download_outputs(launches, *resident);
  return run;
}

}  // namespace zerodiff::device
