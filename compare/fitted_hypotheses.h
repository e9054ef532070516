// Hypotheses whose parameter is read off the mismatching elements themselves.
#pragma once

#include <vector>

#include "compare/hypothesis.h"
#include "compare/mismatch_set.h"

namespace zerodiff::compare {

inline constexpr const char* kLegalId = "rsqrt";

// kLegalId: no fault at all, but the legal choice of numerics.md section 14: each head has an r of its
// own within 2 ulp, under one contraction of the rotation. `scale-stale`: all of K or V stored by one other scale, the simplest number that agrees with the
// codes. `rope-position-wrong`: heads rotated by another position, the same number of positions
// away in every row, or one that another row of the batch has.
std::vector<Hypothesis> fitted_hypotheses(const HeadContract& contract, const JudgedTensor& tensor,
                                          const MismatchSet& set);

}  // namespace zerodiff::compare
