#include "compare/attention_stages.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include "compare/coordinates.h"
#include "compare/score_bound.h"
#include "reference/index_score.h"
#include "reference/index_topk.h"
#include "reference/layer.h"
#include "reference/sparse_block_table.h"

namespace zerodiff::compare {
namespace {

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string place_of(const Coordinates& where) {
  std::string text;
  for (const auto& [name, value] : where) {
    text += (text.empty() ? "" : ", ") + name + " " + std::to_string(value);
  }
  return text;
}

std::string fault_text(const BoundedElement& element) {
  std::string text = place_of(element.where) + ": got " + text_of(element.got);
  if (std::isnan(element.exact)) return text + ", wanted NaN";
  return text + ", wanted " + text_of(element.exact) + " within " + text_of(element.bound);
}

class StageJudge {
 public:
  StageJudge(const LayerCall& call, const Outputs& reference, const Outputs& path,
             std::string path_name, const StageOptions& options)
      : call_(call),
        reference_(reference),
        path_(path),
        name_(std::move(path_name)),
        options_(options),
        rows_(row_facts(call)) {}

  std::vector<StageJudgement> judge() const;

 private:
  // A tensor that a stage reads: the path's, or the reference's with a word about it.
  const Tensor& input(Tensor Outputs::*field, const char* field_name,
                      StageJudgement& judgement) const;
  bool is_reference(Tensor Outputs::*field) const {
    return !(path_.*field).present() || identical(path_.*field, reference_.*field);
  }
  StageJudgement start(const char* stage, const char* output) const;
  void judge_scores(StageJudgement& scores, StageJudgement& selection) const;
  void judge_score_output(const ScoreIntervals& intervals, StageJudgement& scores) const;
  void judge_selection(const ScoreIntervals& intervals, const Tensor& index_q,
                       const Tensor& index_cache, StageJudgement& selection) const;
  StageJudgement judge_table() const;
  StageJudgement judge_attention() const;
  void fill_places(const char* output, const Shape& shape, StageJudgement& judgement) const;
  const Tensor& selection(StageJudgement& judgement) const;

  const LayerCall& call_;
  const Outputs& reference_;
  const Outputs& path_;
  std::string name_;
  const StageOptions& options_;
  RowFacts rows_;
};

const Tensor& StageJudge::input(Tensor Outputs::*field, const char* field_name,
                                StageJudgement& judgement) const {
  if ((path_.*field).present()) return path_.*field;
  judgement.borrowed.push_back(std::string(field_name) + ": the reference's");
  return reference_.*field;
}

StageJudgement StageJudge::start(const char* stage, const char* output) const {
  StageJudgement judgement;
  judgement.path = name_;
  judgement.stage = stage;
  judgement.output = output;
  judgement.note = std::string("the path has no ") + output;
  return judgement;
}

void StageJudge::fill_places(const char* output, const Shape& shape,
                             StageJudgement& judgement) const {
  const WrittenSlots no_slots;
  const CoordinateMap map(call_, no_slots, rows_);
  Headroom& headroom = *judgement.headroom;
  if (headroom.worst) headroom.worst->where = map.at(output, shape, headroom.worst->flat_index);
  for (BoundedElement& element : headroom.first_outside) {
    element.where = map.at(output, shape, element.flat_index);
  }
  judgement.judged = headroom.elements;
  judgement.faults = headroom.outside;
  judgement.verdict = headroom.outside == 0 ? Verdict::bounded : Verdict::fault;
  judgement.note = headroom.outside == 0 ? "" : fault_text(headroom.first_outside.front());
}

void StageJudge::judge_score_output(const ScoreIntervals& intervals, StageJudgement& scores) const {
  const Tensor& got = path_.index_score;
  if (!got.present()) return;
  ScoreCheck check = check_scores(call_, intervals, got);
  if (check.scaled) scores.choices.emplace_back("score_scale");
  scores.headroom = std::move(check.headroom);
  fill_places("index_score", got.shape(), scores);
}

void StageJudge::judge_selection(const ScoreIntervals& intervals, const Tensor& index_q,
                                 const Tensor& index_cache, StageJudgement& selection) const {
  const bool same = is_reference(&Outputs::index_q) && is_reference(&Outputs::index_cache);
  const Tensor contract =
      same ? reference_.topk_index
           : reference::index_topk(
                 call_, reference::index_score(call_, index_q, index_cache, options_.threads));
  const SelectionOptions wanted{options_.rules.exact_topk_order, options_.attention.kept_outside};
  SelectionCheck check = check_selection(call_, intervals, contract, path_.topk_index, wanted);
  selection.judged = check.rows;
  selection.faults = check.faults;
  selection.note = "";
  if (check.reordered > 0) selection.choices.emplace_back("topk_order");
  if (check.tied > 0) selection.choices.emplace_back("topk_ties");
  if (check.within > 0) selection.choices.emplace_back("accumulate");
  selection.verdict = check.faults > 0                   ? Verdict::fault
                      : check.within > 0                 ? Verdict::bounded
                      : check.reordered + check.tied > 0 ? Verdict::legal
                                                         : Verdict::identical;
  if (check.faults > 0) {
    const SelectionDifference& first = check.first_faults.front();
    selection.note = place_of(first.where) + ": " + first.problem;
  }
  selection.selection = std::move(check);
}

void StageJudge::judge_scores(StageJudgement& scores, StageJudgement& selection) const {
  if (call_.config.skip_index_branch) {
    scores.note = selection.note = "skip_index_branch: the selection is the call's";
    return;
  }
  if (!path_.index_score.present() && !path_.topk_index.present()) return;
  const bool same_inputs = is_reference(&Outputs::index_q) && is_reference(&Outputs::index_cache);
  const bool same_scores =
      !path_.index_score.present() || identical(path_.index_score, reference_.index_score);
  if (same_inputs && same_scores && is_reference(&Outputs::topk_index)) {
    for (StageJudgement* stage : {&scores, &selection}) {
      const Tensor& output = stage == &scores ? path_.index_score : path_.topk_index;
      if (!output.present()) continue;
      stage->verdict = Verdict::identical;
      stage->judged = stage == &scores ? output.size() : output.dim(0) * output.dim(1);
      stage->note = "";
    }
    return;
  }
  const Tensor& index_q = input(&Outputs::index_q, "index_q", scores);
  const Tensor& index_cache = input(&Outputs::index_cache, "index_cache", scores);
  selection.borrowed = scores.borrowed;
  const Accumulator accumulator = options_.rules.for_scores(call_.index_cache_type());
  scores.accumulator = selection.accumulator = name_of(accumulator);
  const ScoreIntervals intervals =
      score_intervals(call_, index_q, index_cache, accumulator, options_.threads);
  judge_score_output(intervals, scores);
  if (path_.topk_index.present()) judge_selection(intervals, index_q, index_cache, selection);
}

const Tensor& StageJudge::selection(StageJudgement& judgement) const {
  if (call_.config.skip_index_branch) return call_.topk_index;
  return input(&Outputs::topk_index, "topk_index", judgement);
}

StageJudgement StageJudge::judge_table() const {
  StageJudgement judgement = start("sparse_block_table", "sparse_block_table");
  if (!path_.sparse_block_table.present() && !path_.sparse_context_lens.present()) return judgement;
  TableCheck check = check_table(call_, selection(judgement), path_.sparse_block_table,
                                 path_.sparse_context_lens, options_.attention.kept_outside);
  judgement.judged = check.rows - check.not_judged;
  judgement.faults = check.faults;
  if (check.reordered > 0) judgement.choices.emplace_back("topk_order");
  judgement.verdict = check.faults > 0      ? Verdict::fault
                      : check.reordered > 0 ? Verdict::legal
                                            : Verdict::identical;
  judgement.note = check.faults == 0 ? ""
                                     : place_of(check.first_faults.front().where) + ": " +
                                           check.first_faults.front().problem;
  judgement.table = std::move(check);
  return judgement;
}

StageJudgement StageJudge::judge_attention() const {
  StageJudgement judgement = start("sparse_attention", "attn_output");
  if (!path_.attn_output.present()) return judgement;
  const bool joined = call_.config.kv_storage == KvStorage::block_contiguous;
  const auto k_field = joined ? &Outputs::kv_cache : &Outputs::k_cache;
  const auto v_field = joined ? &Outputs::kv_cache : &Outputs::v_cache;
  const bool same_inputs = is_reference(&Outputs::q) && is_reference(k_field) &&
                           is_reference(v_field) && is_reference(&Outputs::topk_index) &&
                           is_reference(&Outputs::sparse_block_table) &&
                           is_reference(&Outputs::sparse_context_lens);
  if (same_inputs && identical(path_.attn_output, reference_.attn_output)) {
    judgement.verdict = Verdict::identical;
    judgement.judged = path_.attn_output.size();
    judgement.note = "";
    return judgement;
  }
  const AttentionSources sources = attention_sources(call_, reference_, path_);
  judgement.borrowed = sources.borrowed;
  AttentionCheckOptions options = options_.attention;
  options.threads = options_.threads;
  AttentionCheck check =
      check_attention(call_, sources.inputs(), path_.attn_output, options_.rules, options);
  judgement.accumulator = name_of(options_.rules.for_query_key());
  judgement.p_dtype = name_of(options_.rules.p_dtype);
  judgement.headroom = std::move(check.headroom);
  judgement.resolution = check.resolution;
  judgement.faulty_rows = std::move(check.faulty_rows);
  fill_places("attn_output", path_.attn_output.shape(), judgement);
  if (check.unreadable_rows > 0) {
    if (judgement.judged == 0) judgement.verdict = Verdict::absent;
    judgement.note += (judgement.note.empty() ? "" : "; ") + std::to_string(check.unreadable_rows) +
                      " rows not judged: their sparse_block_table names pages that are not there, "
                      "first row " +
                      std::to_string(check.first_unreadable_row);
  }
  return judgement;
}

std::vector<StageJudgement> StageJudge::judge() const {
  std::vector<StageJudgement> judgements;
  if (!reference::has_selection(call_)) return judgements;
  StageJudgement scores = start("index_score", "index_score");
  StageJudgement selection = start("index_topk", "topk_index");
  judge_scores(scores, selection);
  judgements.push_back(std::move(scores));
  judgements.push_back(std::move(selection));
  judgements.push_back(judge_table());
  judgements.push_back(judge_attention());
  return judgements;
}

}  // namespace

AttentionSources attention_sources(const LayerCall& call, const Outputs& reference,
                                   const Outputs& path) {
  AttentionSources sources;
  const auto pick = [&](Tensor Outputs::*field, const char* name) {
    if ((path.*field).present()) return &(path.*field);
    sources.borrowed.push_back(std::string(name) + ": the reference's");
    return &(reference.*field);
  };
  const bool joined = call.config.kv_storage == KvStorage::block_contiguous;
  sources.q = pick(&Outputs::q, "q");
  sources.k_pool =
      joined ? pick(&Outputs::kv_cache, "kv_cache") : pick(&Outputs::k_cache, "k_cache");
  sources.v_pool = joined ? sources.k_pool : pick(&Outputs::v_cache, "v_cache");
  if (path.sparse_block_table.present() && path.sparse_context_lens.present()) {
    sources.table = path.sparse_block_table;
    sources.context_lens = path.sparse_context_lens;
  } else if (path.topk_index.present() && !call.config.skip_index_branch &&
             check_table(call, path.topk_index, {}, {}).not_judged == 0) {
    sources.borrowed.emplace_back("sparse_block_table: made from its topk_index");
    auto made = reference::sparse_block_table(call, path.topk_index);
    sources.table = std::move(made.table);
    sources.context_lens = std::move(made.context_lens);
  } else {
    sources.borrowed.emplace_back("sparse_block_table: the reference's");
    sources.table = reference.sparse_block_table;
    sources.context_lens = reference.sparse_context_lens;
  }
  return sources;
}

std::vector<StageJudgement> judge_attention_stages(const LayerCall& call, const Outputs& reference,
                                                   const Outputs& path,
                                                   const std::string& path_name,
                                                   const StageOptions& options) {
  return StageJudge(call, reference, path, path_name, options).judge();
}

}  // namespace zerodiff::compare
