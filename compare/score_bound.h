// Index scores as intervals: the exact value and how far a right kernel may be from it
// (docs/numerics.md sections 10 and 17).
//
// A dot of 128 products has the error E = e(128) (A + |d|) / 2 of sum_error(), A = sum |q k|, for
// any order and grouping, plus 128 underflows of 2^-150. A score is the largest of a block's live
// dots, so it lies between the largest of d - E and the largest of d + E. Binary64's own error,
// 2^-45 A, is covered by a slack on A.
#pragma once

#include <cstdint>
#include <vector>

#include "compare/accumulate_rules.h"
#include "compare/headroom.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// One element of index_score.
struct ScoreInterval {
  // NaN in all three: every live dot is NaN, in whatever order.
  double low = 0;
  double exact = 0;
  double high = 0;  // infinite where binary32 may overflow on the way
};

struct ScoreIntervals {
  std::int64_t tokens = 0;
  std::int64_t blocks = 0;
  // [nkv][tokens][blocks]; -inf in all three where a block is not visible.
  std::vector<ScoreInterval> elements;

  const ScoreInterval& at(std::int64_t head, std::int64_t token, std::int64_t block) const {
    return elements[static_cast<std::size_t>((head * tokens + token) * blocks + block)];
  }
};

// index_q is [T, niq*128], index_cache [NB, 128, 128], both after insertion. The call must have its
// attention metadata. threads: 0 means one for each core; the result does not depend on it.
ScoreIntervals score_intervals(const LayerCall& call, const Tensor& index_q,
                               const Tensor& index_cache, Accumulator accumulator, int threads = 0);

struct ScoreCheck {
  Headroom headroom;
  bool scaled = false;  // judged as scores times sm_scale * log2(e) (`score_scale`)
};

// index_score as a path left it against the intervals, as they are and times sm_scale * log2(e)
// (two more roundings); the better of the two counts, for the whole tensor.
ScoreCheck check_scores(const LayerCall& call, const ScoreIntervals& intervals,
                        const Tensor& index_score);

}  // namespace zerodiff::compare
