// Index scores by other formulas than the maximum of a block's dots: what kernels with the class
// index-score-formula of docs/faults.md compute.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fixtures/layer_call.h"

namespace zerodiff::compare {

struct ScoreFormula {
  const char* detail;  // "mean of a block's dots instead of their maximum"
  double (*score)(const std::vector<double>& dots);  // of one block's live dots, at least one
};
inline constexpr std::size_t kScoreFormulas = 5;
const std::array<ScoreFormula, kScoreFormulas>& score_formulas();

// [nkv][num_tokens][blocks] as index_score, in binary64 and rounded; -inf where not visible. Scalar
// and slow: meant for calls of some ten thousand scores.
Tensor scores_by(const LayerCall& call, const Tensor& index_q, const Tensor& index_cache,
                 const ScoreFormula& formula);

}  // namespace zerodiff::compare
