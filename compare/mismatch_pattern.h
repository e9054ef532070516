// Which rows, heads, dims and pages mismatches are confined to, in a short phrase.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/mismatch_set.h"

namespace zerodiff::compare {

// How a set of values of one coordinate lies among all values it could have had: "rows >= 3",
// "odd pages only", "dims < 64", "head 1 only"; empty if it is all of them or shows no pattern.
//
// `hit` and `all` are ascending and distinct, `hit` a subset of `all`. A pattern is named if every
// value of `all` that fits it is hit, or if so many hits would all fit it by chance less than once
// in 10,000 times.
std::string axis_pattern(const std::string& singular, const std::string& plural,
                         const std::vector<std::int64_t>& hit,
                         const std::vector<std::int64_t>& all);

// The same over the coordinates of a tensor: rows (or else pages, blocks, offsets within a page),
// heads, dims, and what changed that no row owns. "everywhere" if nothing stands out,
// "scattered everywhere" if most elements of the heads concerned are right.
std::string mismatch_pattern(const HeadContract& contract, const JudgedTensor& tensor,
                             const MismatchSet& set);

// Slots of the pool that elements without an owner belong to, ascending.
std::vector<std::int64_t> stray_slots(const HeadContract& contract, const JudgedTensor& tensor,
                                      const MismatchSet& set);

}  // namespace zerodiff::compare
