// The own device paths of a call: against the reference, each other, and what they may touch.
#pragma once

#include <functional>
#include <string>

#include "compare/report.h"
#include "device/backend.h"
#include "fixtures/layer_call.h"

namespace zerodiff::tools {

struct DeviceJudgement {
  int threads = 0;           // of the comparisons; 0 means one for each core
  bool attention = true;     // the stages after insertion, too
  bool index_score = false;  // compare scores, too: `reference` must hold them
  int graph_replays = 0;     // of the whole layer; 0: only insertion is replayed
  int runs = 1;              // of each path; more than one: repeats, and rows by themselves
};

// Runs unfused and fused on the device and adds to the report: their comparisons with the reference
// and with each other (all gate), the write-set proof, eager against graph-safe, poison, on
// request repeats and rows by themselves, and faults that the device's checks found. `reference` holds the reference's outputs of the call.
void judge_device_paths(const LayerCall& call, const Outputs& reference, device::Backend& backend,
                        const DeviceJudgement& options,
                        const std::function<void(const std::string&)>& on_step,
                        compare::CaseReport& report);

}  // namespace zerodiff::tools
