// diagnose_scores() of selection_diagnosis.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>

#include "compare/row_explanations.h"
#include "compare/score_formulas.h"
#include "compare/selection_diagnosis.h"

namespace zerodiff::compare {
namespace {

// Scalar evaluations beyond this many scores are not worth their time.
constexpr std::int64_t kMostScores = 20'000;

class ScoreRows {
 public:
  ScoreRows(const ScoreIntervals& intervals, const Tensor& got)
      : intervals_(intervals), got_(got.as<float>()) {}

  std::int64_t rows() const { return static_cast<std::int64_t>(got_.size()) / intervals_.blocks; }
  // Whether every score of the row lies within `widths` of its error of `wanted`, or is wanted's.
  bool near(std::int64_t row, std::span<const float> wanted, double widths) const;
  bool right(std::int64_t row) const;
  bool any(std::int64_t row, bool (*holds)(float got, const ScoreInterval& wanted)) const;

 private:
  std::size_t first(std::int64_t row) const {
    return static_cast<std::size_t>(row * intervals_.blocks);
  }
  const ScoreIntervals& intervals_;
  std::span<const float> got_;
};

bool ScoreRows::near(std::int64_t row, std::span<const float> wanted, double widths) const {
  for (std::size_t i = first(row); i < first(row + 1); ++i) {
    if (got_[i] == wanted[i] || (std::isnan(got_[i]) && std::isnan(wanted[i]))) continue;
    const double error = intervals_.elements[i].high - intervals_.elements[i].low;
    const double distance =
        std::fabs(static_cast<double>(got_[i]) - static_cast<double>(wanted[i]));
    if (!(distance <= widths * error)) return false;
  }
  return true;
}

bool ScoreRows::right(std::int64_t row) const {
  for (std::size_t i = first(row); i < first(row + 1); ++i) {
    const auto got = static_cast<double>(got_[i]);
    const ScoreInterval& wanted = intervals_.elements[i];
    if (std::isnan(wanted.exact) && std::isnan(got)) continue;
    if (!(wanted.low <= got && got <= wanted.high)) return false;
  }
  return true;
}

bool ScoreRows::any(std::int64_t row, bool (*holds)(float, const ScoreInterval&)) const {
  for (std::size_t i = first(row); i < first(row + 1); ++i) {
    if (holds(got_[i], intervals_.elements[i])) return true;
  }
  return false;
}

void add_formulas(const LayerCall& call, const SelectionInputs& inputs, const ScoreRows& rows,
                  std::vector<RowHypothesis>& list) {
  for (const ScoreFormula& formula : score_formulas()) {
    const auto scores = std::make_shared<const Tensor>(
        scores_by(call, *inputs.index_q, *inputs.index_cache, formula));
    list.push_back({"index-score-formula", formula.detail, [&rows, scores](std::int64_t row) {
                      return rows.near(row, scores->as<float>(), kBlockSize);
                    }});
  }
}

void add_descriptions(const ScoreRows& rows, std::vector<RowHypothesis>& list) {
  const auto add = [&](const char* id, const char* detail,
                       bool (*holds)(float, const ScoreInterval&)) {
    list.push_back(
        {id, detail, [&rows, holds](std::int64_t row) { return rows.any(row, holds); }, false});
  };
  add("index-score-formula", "forced blocks' numbers stored as scores",
      [](float got, const ScoreInterval&) { return got == 1e30F || got == 1e29F; });
  add("topk-nonfinite-scores", "NaN where there are numbers",
      [](float got, const ScoreInterval& wanted) {
        return std::isnan(got) && !std::isnan(wanted.exact);
      });
  add("index-score-length-cliff", "-inf in visible blocks",
      [](float got, const ScoreInterval& wanted) {
        return got == -std::numeric_limits<float>::infinity() && std::isfinite(wanted.exact);
      });
}

}  // namespace

Diagnosis diagnose_scores(const LayerCall& call, const SelectionInputs& inputs,
                          const ScoreIntervals& intervals, const Tensor& index_score,
                          const std::string& path) {
  Diagnosis diagnosis;
  diagnosis.path = path;
  diagnosis.output = diagnosis.tensor = diagnosis.stage = "index_score";
  const ScoreRows rows(intervals, index_score);
  std::vector<std::int64_t> faulty;
  for (std::int64_t row = 0; row < rows.rows(); ++row) {
    if (rows.right(row)) continue;
    faulty.push_back(row);
    diagnosis.tokens.push_back(row % intervals.tokens);
  }
  std::ranges::sort(diagnosis.tokens);
  diagnosis.tokens.erase(std::unique(diagnosis.tokens.begin(), diagnosis.tokens.end()),
                         diagnosis.tokens.end());
  diagnosis.mismatches = static_cast<std::int64_t>(faulty.size());
  diagnosis.pattern =
      std::to_string(faulty.size()) + " of " + std::to_string(rows.rows()) + " rows";
  std::vector<RowHypothesis> hypotheses;
  if (index_score.size() <= kMostScores) add_formulas(call, inputs, rows, hypotheses);
  add_descriptions(rows, hypotheses);
  explain_rows(hypotheses, rows.rows(), faulty, diagnosis);
  return diagnosis;
}

}  // namespace zerodiff::compare
