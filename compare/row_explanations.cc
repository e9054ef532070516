#include "compare/row_explanations.h"

#include <algorithm>

namespace zerodiff::compare {
namespace {

struct Explained {
  Explanation explanation;
  std::vector<bool> rows;  // of those at fault
};

Explained evaluate(const RowHypothesis& hypothesis, std::int64_t rows,
                   const std::vector<std::int64_t>& faulty, const std::string& stage) {
  Explained result;
  result.explanation = {hypothesis.id, hypothesis.detail, stage, 0, 0, 0};
  for (std::int64_t row = 0; row < rows; ++row) {
    const bool fault = std::ranges::binary_search(faulty, row);
    const bool explained = (fault || hypothesis.foretells) && hypothesis.explains(row);
    if (fault) {
      result.rows.push_back(explained);
      ++result.explanation.of;
      result.explanation.explained += explained ? 1 : 0;
    } else if (hypothesis.foretells && !explained) {
      ++result.explanation.contradicted;
    }
  }
  return result;
}

bool better(const Explained& a, const Explained& b) {
  if (a.explanation.explained != b.explanation.explained) {
    return a.explanation.explained > b.explanation.explained;
  }
  return a.explanation.contradicted < b.explanation.contradicted;
}

}  // namespace

void explain_rows(const std::vector<RowHypothesis>& hypotheses, std::int64_t rows,
                  const std::vector<std::int64_t>& faulty, Diagnosis& diagnosis) {
  std::vector<Explained> explained;
  explained.reserve(hypotheses.size());
  for (const RowHypothesis& hypothesis : hypotheses) {
    explained.push_back(evaluate(hypothesis, rows, faulty, diagnosis.stage));
  }
  std::ranges::stable_sort(explained, better);
  if (explained.empty() || explained.front().explanation.explained == 0) return;
  const Explained& best = explained.front();
  if (best.explanation.coverage() < kExplainedShare) {
    diagnosis.runner_up = best.explanation;
    return;
  }
  diagnosis.best = best.explanation;
  for (std::size_t i = 1; i < explained.size(); ++i) {
    if (explained[i].rows == best.rows &&
        explained[i].explanation.contradicted == best.explanation.contradicted) {
      diagnosis.ties.push_back(explained[i].explanation);
    }
  }
  if (explained.size() < 2) return;
  const Explanation& next = explained[1].explanation;
  if (static_cast<double>(next.explained) >=
      kCloseShare * static_cast<double>(best.explanation.explained)) {
    diagnosis.runner_up = next;
  }
}

}  // namespace zerodiff::compare
