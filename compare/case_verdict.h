// The outcome of a case from what its comparisons and checks found.
#pragma once

#include <string>

#include "compare/report.h"

namespace zerodiff::compare {

struct CaseVerdict {
  Outcome outcome = Outcome::passed;
  std::string reason;  // one line, empty if passed
};

// Reads comparisons, claims, slot_map and fp8_contract of a report whose parts are complete.
//
// failed:  the slot maps are not equivalent (whatever gates), an own path had a fault, broke its
//          write set, differs between eager and graph-safe or reads what is not live, a gating
//          comparison is neither identical nor legal nor bounded, a gating path claims a contract
//          that is not allowed, or a gating tensor breaks a clause of the fp8 contract.
// missing: nothing of that, but a gating output is absent, or gating comparisons together had no
//          element to compare.
// skipped: no comparison gates, so nothing here could have failed.
// passed:  otherwise.
//
// The reason names the first fault in the order slot map, outputs, claims, fp8 contract, and how many more
// there are. Other outcomes (invalid input, crash, ...) are not decided here.
CaseVerdict case_verdict(const CaseReport& report);

}  // namespace zerodiff::compare
