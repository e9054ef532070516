#include "compare/selection_diagnosis.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "compare/row_explanations.h"
#include "compare/score_formulas.h"
#include "reference/index_score.h"
#include "reference/index_topk.h"
#include "reference/visible_blocks.h"

namespace zerodiff::compare {
namespace {

using Ids = std::span<const std::int32_t>;

Ids row_of(const Tensor& topk, std::int64_t row) {
  const auto width = static_cast<std::size_t>(topk.dim(2));
  return topk.as<std::int32_t>().subspan(static_cast<std::size_t>(row) * width, width);
}

bool same_set(Ids a, Ids b) {
  return std::ranges::is_permutation(a, b);
}

class SelectionHypotheses {
 public:
  SelectionHypotheses(const LayerCall& call, const SelectionInputs& inputs, const Tensor& got)
      : call_(call),
        inputs_(inputs),
        got_(got),
        scores_(
            reference::index_score(call, *inputs.index_q, *inputs.index_cache, inputs.threads)) {}

  std::vector<RowHypothesis> list();

 private:
  void add(std::string id, std::string detail, std::shared_ptr<const Tensor> selection);
  void add_counterfactuals();
  void add_formulas();
  void add_other_rows();
  void add_descriptions();
  std::int64_t visible(std::int64_t row) const {
    return reference::visible_blocks(call_, row % call_.config.num_tokens);
  }
  std::shared_ptr<const Tensor> selected(const LayerCall& call, const Tensor& scores) const {
    return std::make_shared<const Tensor>(reference::index_topk(call, scores));
  }

  const LayerCall& call_;
  const SelectionInputs& inputs_;
  const Tensor& got_;
  Tensor scores_;
  std::vector<RowHypothesis> list_;
};

void SelectionHypotheses::add(std::string id, std::string detail,
                              std::shared_ptr<const Tensor> selection) {
  const Tensor& got = got_;
  list_.push_back({std::move(id), std::move(detail),
                   [&got, selection = std::move(selection)](std::int64_t row) {
                     return same_set(row_of(*selection, row), row_of(got, row));
                   },
                   true});
}

// A call with another configuration, for index_topk only.
LayerCall ranking_call(const LayerCall& call) {
  LayerCall other;
  other.config = call.config;
  other.positions = call.positions;
  return other;
}

void SelectionHypotheses::add_counterfactuals() {
  LayerCall unforced = ranking_call(call_);
  unforced.config.init_blocks = unforced.config.local_blocks = 0;
  add("topk-forced-block-missing", "neither init nor local blocks are forced",
      selected(unforced, scores_));
  unforced.config.init_blocks = call_.config.init_blocks;
  if (call_.config.init_blocks > 0) {
    add("topk-forced-block-missing", "local blocks are not forced", selected(unforced, scores_));
    unforced.config.init_blocks = 0;
    unforced.config.local_blocks = call_.config.local_blocks;
    add("topk-forced-block-missing", "init blocks are not forced", selected(unforced, scores_));
  }
  Tensor nan_first = scores_;
  Tensor inverted = scores_;
  for (float& score : nan_first.as<float>()) score = std::isnan(score) ? 1e30F : score;
  for (float& score : inverted.as<float>()) score = -score;
  add("topk-nonfinite-scores", "NaN scores ranked above all", selected(call_, nan_first));
  add("index-score-formula", "the lowest scores selected", selected(call_, inverted));
  const auto blocks = static_cast<std::size_t>(scores_.dim(2));
  for (std::size_t end = 8; end < blocks; end *= 2) {
    Tensor cut = scores_;
    for (std::size_t i = 0; i < static_cast<std::size_t>(cut.size()); ++i) {
      if (i % blocks >= end) cut.as<float>()[i] = -std::numeric_limits<float>::max();
    }
    add("index-score-length-cliff", "only the first " + std::to_string(end) + " blocks have scores",
        selected(call_, cut));
  }
}

void SelectionHypotheses::add_formulas() {
  // Scalar: on large calls the rows are too many to be worth it.
  constexpr std::int64_t kMostScores = 20'000;
  if (scores_.size() > kMostScores) return;
  for (const ScoreFormula& formula : score_formulas()) {
    add("index-score-formula", formula.detail,
        selected(call_, scores_by(call_, *inputs_.index_q, *inputs_.index_cache, formula)));
  }
}

void SelectionHypotheses::add_other_rows() {
  const std::int64_t tokens = call_.config.num_tokens;
  const std::int64_t heads = call_.config.num_kv_heads;
  const Tensor& contract = *inputs_.contract;
  const Tensor& got = got_;
  const auto add_row = [&](const char* id, const char* detail, auto source) {
    list_.push_back({id, detail,
                     [&contract, &got, source](std::int64_t row) {
                       return same_set(row_of(contract, source(row)), row_of(got, row));
                     },
                     true});
  };
  if (heads > 1 && tokens > 1) {
    add_row("topk-layout-transposed", "written as [token][head], read as [head][token]",
            [=](std::int64_t row) { return row % heads * tokens + row / heads; });
  }
  add_row("topk-stale-reuse", "the selection of the token before",
          [=](std::int64_t row) { return row % tokens == 0 ? row : row - 1; });
  add_row("topk-stale-reuse", "the selection of the first token",
          [=](std::int64_t row) { return row / tokens * tokens; });
  if (heads > 1) {
    add_row("topk-stale-reuse", "the selection of head 0",
            [=](std::int64_t row) { return row % tokens; });
  }
}

// What is wrong, where no counterfactual says why.
void SelectionHypotheses::add_descriptions() {
  const auto prefix = [this](std::int64_t row) {
    const Ids ids = row_of(got_, row);
    return ids.first(static_cast<std::size_t>(
        std::min<std::int64_t>(static_cast<std::int64_t>(ids.size()), visible(row))));
  };
  const auto add_description = [&](const char* id, const char* detail, auto holds) {
    list_.push_back({id, detail, holds, false});
  };
  add_description("topk-k-exceeds-n", "ids of blocks that the row cannot see",
                  [this](std::int64_t row) {
                    return std::ranges::any_of(row_of(got_, row),
                                               [&](std::int64_t id) { return id >= visible(row); });
                  });
  add_description("topk-invalid-in-prefix", "-1 or a duplicate among the first min(topk, visible)",
                  [prefix](std::int64_t row) {
                    std::vector<std::int32_t> ids(prefix(row).begin(), prefix(row).end());
                    std::ranges::sort(ids);
                    return std::ranges::adjacent_find(ids) != ids.end() ||
                           (!ids.empty() && ids.front() < 0);
                  });
  add_description("topk-order-contract", "the right blocks, not in rank order",
                  [this](std::int64_t row) {
                    return same_set(row_of(*inputs_.contract, row), row_of(got_, row));
                  });
  add_description("topk-candidate-overflow", "a better block is left out",
                  [this, prefix](std::int64_t row) {
                    const Ids ids = prefix(row);
                    return std::ranges::all_of(
                        ids, [&](std::int64_t id) { return id >= 0 && id < visible(row); });
                  });
}

std::vector<RowHypothesis> SelectionHypotheses::list() {
  add_counterfactuals();
  add_formulas();
  add_other_rows();
  add_descriptions();
  return list_;
}

}  // namespace

Diagnosis diagnose_selection(const LayerCall& call, const SelectionInputs& inputs,
                             const Tensor& topk_index, const SelectionCheck& check,
                             const std::string& path) {
  Diagnosis diagnosis;
  diagnosis.path = path;
  diagnosis.output = diagnosis.tensor = "topk_index";
  diagnosis.stage = "index_topk";
  diagnosis.mismatches = check.faults;
  for (const std::int64_t row : check.faulty_rows) {
    diagnosis.tokens.push_back(row % call.config.num_tokens);
  }
  std::ranges::sort(diagnosis.tokens);
  diagnosis.tokens.erase(std::unique(diagnosis.tokens.begin(), diagnosis.tokens.end()),
                         diagnosis.tokens.end());
  diagnosis.pattern = std::to_string(check.faults) + " of " + std::to_string(check.rows) + " rows";
  SelectionHypotheses hypotheses(call, inputs, topk_index);
  explain_rows(hypotheses.list(), check.rows, check.faulty_rows, diagnosis);
  return diagnosis;
}

}  // namespace zerodiff::compare
