// The write-set proof (docs/verdicts.md, section 2): insertion runs twice, on caches filled with a
// byte A and with ~A. A byte counts as written if it differs from its fill in either run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compare/report.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// One report for each cache that `on_fill` has. The two outputs come from one path, run on caches
// in which every byte was `fill` and ~`fill`; both have passed check_outputs for the call.
//
// Throws Error (kInput) for a graph-safe slot buffer that reference::map_slots rejects.
std::vector<WriteSetReport> write_set_report(const LayerCall& call, const std::string& path,
                                             std::byte fill, const Outputs& on_fill,
                                             const Outputs& on_inverse);

}  // namespace zerodiff::compare
