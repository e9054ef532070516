#include "compare/stage_diagnosis.h"

#include "compare/attention_hypotheses.h"
#include "compare/score_bound.h"
#include "compare/selection_diagnosis.h"
#include "reference/index_score.h"
#include "reference/index_topk.h"

namespace zerodiff::compare {
namespace {

const Tensor& own(const Tensor& path, const Tensor& reference) {
  return path.present() ? path : reference;
}

class StageDiagnostician {
 public:
  StageDiagnostician(const LayerCall& call, const Outputs& reference, const Outputs& path,
                     const StageOptions& options)
      : call_(call),
        reference_(reference),
        path_(path),
        options_(options),
        index_q_(own(path.index_q, reference.index_q)),
        index_cache_(own(path.index_cache, reference.index_cache)) {}

  Diagnosis diagnose(const StageJudgement& judgement) const {
    if (judgement.stage == "index_score") return scores(judgement);
    if (judgement.stage == "index_topk") return selection(judgement);
    if (judgement.stage == "sparse_block_table") return table(judgement);
    const AttentionSources sources = attention_sources(call_, reference_, path_);
    AttentionDiagnosisOptions attention;
    attention.rules = options_.rules;
    attention.threads = options_.threads;
    return diagnose_attention(call_, sources.inputs(), path_.attn_output, judgement.faulty_rows,
                              judgement.path, attention);
  }

 private:
  Diagnosis scores(const StageJudgement& judgement) const {
    const Accumulator accumulator = options_.rules.for_scores(call_.index_cache_type());
    const ScoreIntervals intervals =
        score_intervals(call_, index_q_, index_cache_, accumulator, options_.threads);
    return diagnose_scores(call_, {&index_q_, &index_cache_, nullptr, options_.threads}, intervals,
                           path_.index_score, judgement.path);
  }
  Diagnosis selection(const StageJudgement& judgement) const {
    const Tensor contract = reference::index_topk(
        call_, reference::index_score(call_, index_q_, index_cache_, options_.threads));
    return diagnose_selection(call_, {&index_q_, &index_cache_, &contract, options_.threads},
                              path_.topk_index, *judgement.selection, judgement.path);
  }
  Diagnosis table(const StageJudgement& judgement) const {
    const Tensor& selection = call_.config.skip_index_branch
                                  ? call_.topk_index
                                  : own(path_.topk_index, reference_.topk_index);
    return diagnose_table(call_, selection, path_.sparse_block_table, path_.sparse_context_lens,
                          *judgement.table, judgement.path);
  }

  const LayerCall& call_;
  const Outputs& reference_;
  const Outputs& path_;
  const StageOptions& options_;
  const Tensor& index_q_;
  const Tensor& index_cache_;
};

}  // namespace

std::vector<Diagnosis> diagnose_attention_stages(const LayerCall& call, const Outputs& reference,
                                                 const Outputs& path,
                                                 const std::vector<StageJudgement>& judgements,
                                                 const StageOptions& options) {
  const StageDiagnostician diagnostician(call, reference, path, options);
  std::vector<Diagnosis> diagnoses;
  for (const StageJudgement& judgement : judgements) {
    if (judgement.verdict == Verdict::fault) diagnoses.push_back(diagnostician.diagnose(judgement));
  }
  return diagnoses;
}

}  // namespace zerodiff::compare
