// Measures the own paths of a call on a device, stage by stage.
#pragma once

#include "device/backend.h"
#include "fixtures/layer_call.h"
#include "tools/bench_report.h"

namespace zerodiff::tools {

struct BenchOptions {
  int runs = 50;    // of each range of launches
  int threads = 0;  // of the reference
};

// Runs the reference and both paths on all of the call first and holds every output against the
// reference's: of what differs nothing is measured, `difference` says what. Then each stage, the
// insertion stages together and each whole path are run `runs` times, on sets of buffers that take
// turns and that together are several times the device's last cache; and so is a copy, of several
// times that cache, on the device. Stages run on what the path left; the rows that unfused insertion
// works on in place are normalised again and again, which costs as much as the first time.
//
// Throws Error: kInput for a call that the reference refuses, kInfrastructure if the device fails.
BenchReport bench_call(const LayerCall& call, device::Backend& backend,
                       const BenchOptions& options);

}  // namespace zerodiff::tools
