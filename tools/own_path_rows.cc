#include "tools/own_path_rows.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace zerodiff::tools {

std::optional<Outputs> outputs_or_faults(device::PathRun run, device::PathKind kind,
                                         compare::CaseReport& report) {
  if (run.report.ok()) return std::move(run.outputs);
  for (const device::KernelFault& fault : run.report.faults) {
    report.path_faults.push_back({std::string(name_of(kind)), to_string(fault)});
  }
  return std::nullopt;
}

void add_own_rows(const LayerCall& call, const Outputs& expected, std::string_view expected_name,
                  const Outputs& got, device::PathKind kind, compare::CompareOptions options,
                  compare::CaseReport& report) {
  options.gates = true;
  options.demand_complete = true;
  auto rows = compare::compare_outputs(call, expected, std::string(expected_name), got,
                                       std::string(name_of(kind)), options);
  std::ranges::move(rows, std::back_inserter(report.comparisons));
}

}  // namespace zerodiff::tools
