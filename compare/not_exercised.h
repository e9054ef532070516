// What a capture cannot show: properties of a call that would let a fault pass unseen. They never
// fail a case (docs/verdicts.md, section 5).
#pragma once

#include <string>
#include <vector>

#include "compare/report.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// One line each, "ID: why", in a fixed order; ids are stable. For example
// "unit_scales: k_scale and v_scale are 1, so a missing or inverted scale cannot show".
//
// `fp8` is the report of this call; the tensors of its first path (the reference) tell which codes
// occur. Without tensors the ids about codes (no_saturation, no_top_octave, no_subnormal_codes,
// no_negative_underflow) are left out.
std::vector<std::string> not_exercised(const LayerCall& call, const Fp8ContractReport& fp8);

}  // namespace zerodiff::compare
