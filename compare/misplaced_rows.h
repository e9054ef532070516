// Where the content of wrong heads comes from: each one searched, whole, among everything that the
// call computes.
#pragma once

#include <optional>

#include "compare/diagnosis.h"
#include "compare/mismatch_set.h"

namespace zerodiff::compare {

// The explanation that the heads with a mismatch hold other heads of the call: of another row,
// another head, another branch of the same element type. nullopt unless heads with kExplainedShare
// of the mismatching elements (slots that no row maps to included) are found elsewhere. The id is
// "misplaced-rows"; the detail says from where in short ("each holds the row before it").
std::optional<Explanation> find_misplaced_rows(const HeadContract& contract,
                                               const JudgedTensor& tensor, const MismatchSet& set);

}  // namespace zerodiff::compare
