#include "compare/diagnose.h"

#include <algorithm>
#include <utility>

#include "compare/fitted_hypotheses.h"
#include "compare/hypothesis_search.h"
#include "compare/mismatch_pattern.h"
#include "compare/misplaced_rows.h"

namespace zerodiff::compare {
namespace {

Explanation explanation_of(const RankedHypothesis& ranked) {
  return {ranked.hypothesis.id,   ranked.hypothesis.detail, ranked.hypothesis.stage,
          ranked.score.explained, ranked.score.of,          ranked.score.contradicted};
}

// The cache before the call, by the output's name.
const Tensor* before_of(const LayerCall& call, std::string_view output) {
  for (const InputField& field : kInputFields) {
    if (field.name == output && cache_output(output)) return &(call.*field.tensor);
  }
  return nullptr;
}

std::vector<std::pair<std::string_view, Branch>> judged_tensors(const LayerCall& call) {
  std::vector<std::pair<std::string_view, Branch>> tensors{{"q", Branch::q}};
  if (!call.config.skip_index_branch) tensors.emplace_back("index_q", Branch::index_q);
  if (call.config.kv_storage == KvStorage::separate) {
    tensors.emplace_back("k_cache", Branch::k);
    tensors.emplace_back("v_cache", Branch::v);
  } else {
    tensors.emplace_back("kv_cache", Branch::k);
    tensors.emplace_back("kv_cache", Branch::v);
  }
  tensors.emplace_back("index_cache", Branch::index_k);
  return tensors;
}

const Tensor& output_named(const Outputs& outputs, std::string_view name) {
  const auto field = std::ranges::find(kOutputFields, name, &OutputField::name);
  return outputs.*field->tensor;
}

class Diagnostician {
 public:
  Diagnostician(const LayerCall& call, const Outputs& expected, const Outputs& got,
                const std::string& path, const DiagnosisOptions& options)
      : contract_(call, options.choices),
        expected_(expected),
        got_(got),
        path_(path),
        threads_(options.threads) {}

  std::vector<DiagnosedTensor> run() const {
    std::vector<DiagnosedTensor> result;
    for (const auto& [output, branch] : judged_tensors(contract_.call())) {
      if (auto one = diagnose(output, branch)) result.push_back(std::move(*one));
    }
    name_whole_caches_unwritten(result);
    name_asymmetric_scales(result);
    place_unexplained(result);
    return result;
  }

 private:
  // Under skip_index_branch the index cache must be the call's own.
  const Tensor& expected_of(std::string_view output) const {
    const LayerCall& call = contract_.call();
    if (call.config.skip_index_branch && output == "index_cache") return call.index_cache;
    return output_named(expected_, output);
  }

  std::optional<DiagnosedTensor> diagnose(std::string_view output, Branch branch) const {
    JudgedTensor tensor;
    tensor.output = output;
    tensor.branch = branch;
    tensor.expected = &expected_of(output);
    tensor.got = &output_named(got_, output);
    tensor.before = before_of(contract_.call(), output);
    if (!tensor.expected->present() || !tensor.got->present()) return std::nullopt;
    if (identical(*tensor.expected, *tensor.got)) return std::nullopt;
    tensor.prepare();
    const MismatchSet set = mismatches_of(contract_, tensor);
    if (set.total == 0) return std::nullopt;
    DiagnosedTensor result{describe_place(tensor, set), std::nullopt};
    explain(tensor, set, result);
    return result;
  }

  Diagnosis describe_place(const JudgedTensor& tensor, const MismatchSet& set) const {
    Diagnosis diagnosis;
    diagnosis.path = path_;
    diagnosis.output = tensor.output;
    diagnosis.tensor = name_of(tensor.branch);
    diagnosis.stage = storing_stage(tensor.branch);
    diagnosis.mismatches = set.total;
    for (const AffectedHead& head : set.heads) {
      if (diagnosis.tokens.empty() || diagnosis.tokens.back() != head.at.token) {
        diagnosis.tokens.push_back(head.at.token);
      }
    }
    diagnosis.stray_slots = stray_slots(contract_, tensor, set);
    diagnosis.pattern = mismatch_pattern(contract_, tensor, set);
    return diagnosis;
  }

  // In a joined pool K may land in V's plane and the other way round.
  std::vector<Hypothesis> candidates(const JudgedTensor& tensor, const MismatchSet& set) const {
    std::vector<Hypothesis> list = hypotheses_for(contract_, tensor.branch);
    for (Hypothesis& hypothesis : fitted_hypotheses(contract_, tensor, set)) {
      // Where a legal choice explains as much as a fault, it is none.
      const bool legal = hypothesis.id == kLegalId;
      list.insert(legal ? list.begin() : list.end(), std::move(hypothesis));
    }
    if (tensor.output != "kv_cache") return list;
    const Branch other = tensor.branch == Branch::k ? Branch::v : Branch::k;
    // K and V moved alike, then the other one alone.
    const std::size_t own = list.size();
    for (std::size_t i = 0; i < own; ++i) {
      if (!list[i].moves()) continue;
      list.push_back(list[i]);
      list.back().branches = {Branch::k, Branch::v};
    }
    for (Hypothesis& hypothesis : hypotheses_for(contract_, other)) {
      if (hypothesis.moves()) list.push_back(std::move(hypothesis));
    }
    return list;
  }

  void explain(const JudgedTensor& tensor, const MismatchSet& set, DiagnosedTensor& result) const {
    const std::vector<RankedHypothesis> ranked =
        rank_hypotheses(contract_, tensor, set, candidates(tensor, set), threads_);
    Diagnosis& diagnosis = result.diagnosis;
    if (ranked.empty() || ranked.front().score.coverage() < kExplainedShare) {
      diagnosis.best = find_misplaced_rows(contract_, tensor, set);
      if (diagnosis.best) diagnosis.stage = diagnosis.best->stage;
      if (!ranked.empty() && ranked.front().score.explained > 0) {
        diagnosis.runner_up = explanation_of(ranked.front());
      }
      return;
    }
    diagnosis.best = explanation_of(ranked.front());
    diagnosis.stage = diagnosis.best->stage;
    result.winner = ranked.front().hypothesis;
    add_others(ranked, diagnosis);
  }

  static void add_others(const std::vector<RankedHypothesis>& ranked, Diagnosis& diagnosis) {
    const Explanation& best = *diagnosis.best;
    for (std::size_t i = 1; i < ranked.size(); ++i) {
      const Explanation other = explanation_of(ranked[i]);
      if (other.explained == best.explained && other.contradicted == best.contradicted) {
        diagnosis.ties.push_back(other);
      } else if (!diagnosis.runner_up && other.id != best.id &&
                 static_cast<double>(other.explained) >=
                     kCloseShare * static_cast<double>(best.explained)) {
        diagnosis.runner_up = other;
      }
    }
  }

  // Not one element of K or of V stored: they went to a copy.
  void name_whole_caches_unwritten(std::vector<DiagnosedTensor>& result) const {
    const LayerCall& call = contract_.call();
    const bool joined = call.config.kv_storage == KvStorage::block_contiguous;
    const bool unwritten =
        joined ? identical(call.kv_cache, got_.kv_cache)
               : identical(call.k_cache, got_.k_cache) && identical(call.v_cache, got_.v_cache);
    if (!unwritten) return;
    for (DiagnosedTensor& tensor : result) {
      auto& best = tensor.diagnosis.best;
      if (!best || best->id != "kv-write-dropped") continue;
      tensor.diagnosis.ties.push_back(*best);
      best->id = "kv-write-to-copy";
      best->detail = "no element of the K/V caches stored";
    }
  }

  // Queries are not stored in a cache: if they differ too, the fault lies before the caches.
  static void place_unexplained(std::vector<DiagnosedTensor>& result) {
    const bool queries_differ = std::ranges::any_of(
        result, [](const DiagnosedTensor& tensor) { return tensor.diagnosis.tensor == "q"; });
    if (!queries_differ) return;
    for (DiagnosedTensor& tensor : result) {
      Diagnosis& diagnosis = tensor.diagnosis;
      if (!diagnosis.best && diagnosis.tensor != "v") diagnosis.stage = "qk_norm_rope";
    }
  }

  // One of K and V stored without its scale, the other one as it should be.
  static void name_asymmetric_scales(std::vector<DiagnosedTensor>& result) {
    std::vector<Diagnosis*> of_kv;
    for (DiagnosedTensor& tensor : result) {
      const std::string& name = tensor.diagnosis.tensor;
      if (name == "k" || name == "v") of_kv.push_back(&tensor.diagnosis);
    }
    if (of_kv.size() != 1 || of_kv[0]->id() != "scale-ignored-write") return;
    Explanation& best = *of_kv[0]->best;
    of_kv[0]->ties.push_back(best);
    best.id = "scale-write-read-asymmetry";
    best.detail = of_kv[0]->tensor == "k" ? "V scaled, K stored without its scale"
                                          : "K scaled, V stored without its scale";
  }

  HeadContract contract_;
  const Outputs& expected_;
  const Outputs& got_;
  const std::string& path_;
  int threads_;
};

}  // namespace

std::vector<DiagnosedTensor> diagnose_tensors(const LayerCall& call, const Outputs& expected,
                                              const Outputs& got, const std::string& path,
                                              const DiagnosisOptions& options) {
  return Diagnostician(call, expected, got, path, options).run();
}

std::vector<Diagnosis> diagnose_insertion(const LayerCall& call, const Outputs& expected,
                                          const Outputs& got, const std::string& path,
                                          const DiagnosisOptions& options) {
  std::vector<Diagnosis> result;
  for (DiagnosedTensor& tensor : diagnose_tensors(call, expected, got, path, options)) {
    result.push_back(std::move(tensor.diagnosis));
  }
  return result;
}

}  // namespace zerodiff::compare
