// What the diagnosis says of every planted bug: detected, named and placed, as a matrix.
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <set>
#include <string>

#include "compare/diagnose.h"
#include "compare/output_comparison.h"
#include "device/host/host_backend.h"
#include "reference/layer.h"
#include "tests/device/paths_test_support.h"
#include "tests/device/planted/planted_bugs.h"

namespace zerodiff::device {
namespace {

TEST(Explore, All) {
  HostBackend backend({.wave_width = 32, .threads = 1}, planted_kernels());
  for (const PlantedBugInfo& bug : planted_bugs()) {
    std::cout << "== " << bug.id << ": " << bug.description << "\n";
    for (const NamedCall& named : named_calls()) {
      const LayerCall call = named.make();
      PathOptions options;
      options.wanted_work_groups = 1;
      const PlantGuard guard(bug.bug, call);
      const PathRun run = run_path(call, PathKind::fused, backend, options);
      const Outputs expected = reference::run_insertion(call, {}, 1);
      if (!run.report.ok()) {
        std::cout << "   " << named.name << " FAULT " << name_of(run.report.faults.front().kind) << "\n";
        if (!run.outputs.q.present()) continue;
      }
      for (const auto& d : compare::diagnose_insertion(call, expected, run.outputs, "p", 1)) {
        std::cout << "   " << named.name << ": " << (d.id() == bug.id ? "ok " : "BAD ");
        for (const auto& t : d.ties) std::cout << "[tie " << t.id << "] ";
        std::cout << describe(d) << (d.best ? " contra " + std::to_string(d.best->contradicted) : "") << "\n";
      }
    }
  }
}

}  // namespace
}  // namespace zerodiff::device
