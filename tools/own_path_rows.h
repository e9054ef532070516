// What a run of an own device path adds to a report: rows of comparisons, or faults.
#pragma once

#include <optional>
#include <string_view>

#include "compare/output_comparison.h"
#include "compare/report.h"
#include "device/paths/run_path.h"
#include "fixtures/layer_call.h"

namespace zerodiff::tools {

// The outputs of the run; if the device's checks found faults, they go into the report and there
// are no outputs.
std::optional<Outputs> outputs_or_faults(device::PathRun run, device::PathKind kind,
                                         compare::CaseReport& report);

// Adds a row for each output of `got`, the outputs of an own path, against `expected`. All of them
// gate, and an output that `got` lacks gates, too.
void add_own_rows(const LayerCall& call, const Outputs& expected, std::string_view expected_name,
                  const Outputs& got, device::PathKind kind, compare::CompareOptions options,
                  compare::CaseReport& report);

}  // namespace zerodiff::tools
