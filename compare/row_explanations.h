// Ranks hypotheses that explain whole rows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compare/diagnosis.h"

namespace zerodiff::compare {

struct RowHypothesis {
  std::string id;      // a class of docs/faults.md
  std::string detail;  // the mistake in words
  // Whether the row is as the mistake would have left it.
  std::function<bool(std::int64_t row)> explains;
  // Whether it says something about rows that are right; a description of what is wrong does not.
  bool foretells = true;
};

// Fills best, runner_up and ties from the rows 0..rows-1, of which `faulty` (ascending) are at
// fault. Among hypotheses that explain as much, the one with fewer contradictions, then the earlier.
void explain_rows(const std::vector<RowHypothesis>& hypotheses, std::int64_t rows,
                  const std::vector<std::int64_t>& faulty, Diagnosis& diagnosis);

}  // namespace zerodiff::compare
