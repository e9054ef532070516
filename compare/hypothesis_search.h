// The hypothesis that explains most mismatching elements of a tensor: all of them on a sample
// first, then the promising ones on everything.
#pragma once

#include <cstdint>
#include <vector>

#include "compare/diagnosis.h"
#include "compare/hypothesis.h"
#include "compare/mismatch_set.h"

namespace zerodiff::compare {

struct Score {
  std::int64_t explained = 0;
  std::int64_t of = 0;
  std::int64_t contradicted = 0;

  double coverage() const {
    return of == 0 ? 0 : static_cast<double>(explained) / static_cast<double>(of);
  }
};

// One hypothesis against the given affected heads; hypotheses that only change values.
Score score_values(const HeadContract& contract, const JudgedTensor& tensor,
                   const Hypothesis& hypothesis, const std::vector<AffectedHead>& heads,
                   int threads);

// One hypothesis that moves elements, against every mismatching element of the set. An element that
// several heads would be stored to is explained by any of them.
Score score_moves(const HeadContract& contract, const JudgedTensor& tensor,
                  const Hypothesis& hypothesis, const MismatchSet& set, int threads);

struct RankedHypothesis {
  Hypothesis hypothesis;
  Score score;  // over all mismatching elements of the set
};

// Best first: those that reach kExplainedShare before those that do not; among the former fewer
// contradictions, among the latter more explained elements; then as `candidates` are ordered.
// Hypotheses that cannot compete are left out.
std::vector<RankedHypothesis> rank_hypotheses(const HeadContract& contract,
                                              const JudgedTensor& tensor, const MismatchSet& set,
                                              std::vector<Hypothesis> candidates, int threads);

// At most `count` of the heads, evenly spread.
std::vector<AffectedHead> sample_heads(const std::vector<AffectedHead>& heads, std::size_t count);

}  // namespace zerodiff::compare
