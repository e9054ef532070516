// Selections judged by score intervals (docs/verdicts.md section 1): wrong is only what no right
// sum of the scores could have selected.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/legal_report.h"
#include "compare/score_bound.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// How a row of topk_index relates to the contract's on the same inputs, best first.
enum class SelectionVerdict : std::uint8_t {
  identical,    // the same ids in the same order
  reordered,    // the same set: `topk_order`; never where rank order is asked for
  tied,         // other ids of equal score: `topk_ties`
  within,       // no unselected block is above a selected one for certain
  ill_ordered,  // only where rank order is asked for: a block stands before a better one
  wrong,        // an unselected block is above a selected one for certain
  malformed,    // duplicate, not visible, or not min(topk, visible) ids and then -1
};
const char* name_of(SelectionVerdict verdict);

struct RankedBlock {
  std::int64_t id = 0;
  ScoreInterval score;  // as ranked: forced blocks and NaN have their numbers
};

// One row that is not the contract's.
struct SelectionDifference {
  SelectionVerdict verdict = SelectionVerdict::identical;
  Coordinates where;                 // kv_head, token, request, position
  std::vector<RankedBlock> entered;  // selected, and not by the contract
  std::vector<RankedBlock> left;     // selected by the contract only
  // By how much the best block left out is above the worst selected one, for certain; negative: by
  // how much their intervals overlap.
  double gap = 0;
  std::string problem;  // one line, empty unless it is a fault
};

struct SelectionCheck {
  std::int64_t rows = 0;
  std::int64_t identical = 0;
  std::int64_t reordered = 0;
  std::int64_t tied = 0;
  std::int64_t within = 0;
  std::int64_t faults = 0;
  std::vector<SelectionDifference> first;         // the first rows with other sets, or at fault
  std::vector<SelectionDifference> first_faults;  // of these, faults
  std::vector<std::int64_t> faulty_rows;          // head * num_tokens + token, ascending
};

struct SelectionOptions {
  bool exact_order = false;  // the contract in force asks for rank order
  std::size_t kept = 8;
};

// Both tensors are [nkv, num_tokens, topk] int32: `contract` is the reference's selection on the
// scores that the intervals are of. Scores times sm_scale * log2(e) are covered: that is monotonic,
// and its two roundings widen the intervals.
SelectionCheck check_selection(const LayerCall& call, const ScoreIntervals& intervals,
                               const Tensor& contract, const Tensor& topk_index,
                               const SelectionOptions& options = {});

}  // namespace zerodiff::compare
