// All outputs of one path against another's: from two `Outputs` to comparisons.
#pragma once

#include <string>
#include <vector>

#include "compare/exact_comparison.h"
#include "compare/report.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

struct CompareOptions {
  ComparisonOptions elements;
  bool gates = false;  // whether these comparisons decide the case
  // Whether an output that `expected` has and the path lacks gates too. Off, it is shown only.
  bool demand_complete = false;
  Scope scope = Scope::end_to_end;
  // The index_score that explains a topk_index that differs. Null: that of `expected`, or computed
  // from its index_q and index_cache, or none.
  const Tensor* scores = nullptr;
};

// One comparison for each output that either side has, in the order of kOutputFields. A
// topk_index that differs is explained (topk_difference.h).
//
// Regions: "scheduled" and "padding" rows of q and index_q (padding does not count), "written" and
// "untouched" elements of the caches (numerics.md section 7 says which), "all" elsewhere. NaNs are
// equal in computed elements; untouched cache elements, and V in a 16-bit cache, which is a copy,
// compare by bits.
//
// Verdicts: identical, different, or absent with a note and without a tally:
//   - the path lacks the output;
//   - `expected` lacks it (attention outputs of a reference that stops after insertion): not
//   judged;
//   - index_q under skip_index_branch: ignored.
// index_cache under skip_index_branch is held against the call's own: it must be unchanged.
//
// Both sides must have passed check_outputs for this call. Throws Error (kInput) for a graph-safe
// slot buffer that reference::map_slots rejects.
std::vector<Comparison> compare_outputs(const LayerCall& call, const Outputs& expected,
                                        const std::string& expected_name, const Outputs& got,
                                        const std::string& path,
                                        const CompareOptions& options = {});

}  // namespace zerodiff::compare
