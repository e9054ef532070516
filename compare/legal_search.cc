#include "compare/legal_search.h"

#include <algorithm>
#include <array>
#include <memory>
#include <tuple>
#include <utility>

#include "compare/build_choices.h"
#include "compare/coordinates.h"
#include "compare/tensor_explanation.h"
#include "compare/written_elements.h"

namespace zerodiff::compare {
namespace {

constexpr std::array<std::string_view, 6> kInsertionOutputs{"q",       "index_q",  "k_cache",
                                                            "v_cache", "kv_cache", "index_cache"};

FactorFreedom factor_freedom(const AllowedChoices& allowed) {
  FactorFreedom freedom;
  for (const std::string& ulps : allowed.values("rsqrt")) {
    freedom.ulps = std::max(freedom.ulps, std::stoi(ulps));
  }
  freedom.any_order = allowed.allows("sumsq_order", "any");
  return freedom;
}

class LegalSearch {
 public:
  LegalSearch(const LayerCall& call, const Outputs& contract, const Outputs& got,
              const AllowedChoices& allowed, int threads)
      : call_(call),
        written_(written_slots(call)),
        rows_(row_facts(call)),
        tensors_(tensors_of(contract, got, factor_freedom(allowed), threads)),
        choices_(allowed, shown()) {}

  InsertionExplanation run() {
    const std::vector<BuildKey> keys = choices_.combinations();
    BuildKey best = keys.front();
    for (const BuildKey& key : keys) {
      if (score(key) > score(best)) best = key;
      if (!differs()) break;
    }
    InsertionExplanation explanation;
    explanation.choices = choices_.choices(best);
    for (const auto& tensor : tensors_) add(*tensor, best, explanation);
    return explanation;
  }

 private:
  using Tensors = std::vector<std::unique_ptr<TensorExplanation>>;
  using Shown = std::array<bool, kBuildChoices.size()>;
  // Tensors explained, of those that do not differ and of all; heads unexplained and departures,
  // both negative: the larger the better.
  using Score = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

  Tensors tensors_of(const Outputs& contract, const Outputs& got, const FactorFreedom& freedom,
                     int threads) const {
    Tensors tensors;
    for (const HeadTensor tensor : insertion_tensors(call_)) {
      const InsertionHeads heads(call_, written_, tensor);
      if (!heads.tensor_of(contract).present() || !heads.tensor_of(got).present()) continue;
      tensors.push_back(std::make_unique<TensorExplanation>(call_, written_, tensor, contract, got,
                                                            freedom, threads));
    }
    return tensors;
  }

  Shown shown() const {
    Shown any{};
    for (const auto& tensor : tensors_) {
      for (std::size_t i = 0; i < any.size(); ++i) any[i] = any[i] || tensor->shown()[i];
    }
    return any;
  }

  bool differs() const {
    return std::ranges::any_of(tensors_, [](const auto& tensor) { return tensor->differs(); });
  }

  Score score(const BuildKey& key) {
    std::int64_t kept = 0;
    std::int64_t explained = 0;
    std::int64_t unexplained = 0;
    std::int64_t departed = departures(key);
    for (const auto& tensor : tensors_) {
      const ExplainedHeads& heads = tensor->under(key, choices_);
      explained += heads.unexplained == 0 ? 1 : 0;
      kept += heads.unexplained == 0 && !tensor->differs() ? 1 : 0;
      unexplained += heads.unexplained;
      departed += heads.moved();
    }
    return {kept, explained, -unexplained, -departed};
  }

  // Whether `other` explains every tensor that `best` explains.
  bool explains_as_much(const BuildKey& other, const BuildKey& best) {
    return std::ranges::all_of(tensors_, [&](const auto& tensor) {
      return tensor->under(best, choices_).unexplained > 0 ||
             tensor->under(other, choices_).unexplained == 0;
    });
  }

  ChoiceFinding finding(std::size_t choice, const BuildKey& best) {
    const std::vector<std::string>& values = choices_.values(choice);
    ChoiceFinding found;
    found.id = kBuildChoices[choice];
    found.value = values[best[choice]];
    found.of_the_contract = best[choice] == 0;
    for (std::size_t value = 0; value < values.size(); ++value) {
      BuildKey other = best;
      other[choice] = static_cast<std::uint8_t>(value);
      if (other != best && explains_as_much(other, best)) found.as_good.push_back(values[value]);
    }
    return found;
  }

  void add(TensorExplanation& tensor, const BuildKey& best, InsertionExplanation& explanation) {
    const ExplainedHeads& heads = tensor.fully_under(best, choices_);
    LegalReport& report = explanation.outputs[std::string(tensor.heads().output())];
    report.heads += heads.heads;
    for (std::size_t i = 0; i < heads.by_ulp.size(); ++i) report.heads_by_ulp[i] += heads.by_ulp[i];
    report.heads_by_sum_order += heads.by_sum_order;
    if (heads.largest_move != 0) report.largest_move = heads.largest_move;  // V moves none
    report.heads_unexplained += heads.unexplained;
    report.elements_explained += heads.elements_explained;
    report.elements_unexplained += heads.elements_unexplained;
    if (heads.first_unexplained >= 0 && !report.first_unexplained) {
      report.first_unexplained = place_of(tensor.heads(), heads.first_unexplained);
    }
    for (std::size_t i = 0; i < kBuildChoices.size(); ++i) {
      if (!tensor.shown()[i] || choices_.values(i).size() < 2) continue;
      const auto known = std::ranges::find(report.choices, kBuildChoices[i], &ChoiceFinding::id);
      if (known == report.choices.end()) report.choices.push_back(finding(i, best));
    }
  }

  Coordinates place_of(const InsertionHeads& heads, std::int64_t i) const {
    const std::int64_t token = heads.token(i);
    const auto row = static_cast<std::size_t>(token);
    return {{"token", token},
            {"request", rows_.request[row]},
            {"position", rows_.position[row]},
            {"head", heads.head(i)}};
  }

  const LayerCall& call_;
  WrittenSlots written_;
  RowFacts rows_;
  Tensors tensors_;
  BuildChoices choices_;
};

bool is_undecided(const Comparison& comparison) {
  return comparison.verdict == Verdict::different &&
         std::ranges::find(kInsertionOutputs, comparison.output) != kInsertionOutputs.end();
}

void judge(Comparison& comparison, const InsertionExplanation& explanation) {
  comparison.verdict = Verdict::fault;
  const auto found = explanation.outputs.find(comparison.output);
  if (found == explanation.outputs.end()) return;  // an index cache that must be unchanged
  comparison.legal = found->second;
  // Differences outside of the judged heads, in elements that no slot maps to, have no choice.
  if (comparison.total.mismatches == found->second.elements_explained) {
    comparison.verdict = Verdict::legal;
  }
}

std::string counted_heads(std::int64_t count) {
  return std::to_string(count) + (count == 1 ? " head" : " heads");
}

}  // namespace

InsertionExplanation explain_insertion(const LayerCall& call, const Outputs& contract,
                                       const Outputs& got, const AllowedChoices& allowed,
                                       int threads) {
  return LegalSearch(call, contract, got, allowed, threads).run();
}

reference::Choices judge_insertion(const LayerCall& call, const Outputs& contract,
                                   const Outputs& got, const AllowedChoices& allowed,
                                   std::vector<Comparison>& comparisons, int threads) {
  if (std::ranges::none_of(comparisons, is_undecided)) return contract_choices(allowed);
  const InsertionExplanation explanation = explain_insertion(call, contract, got, allowed, threads);
  for (Comparison& comparison : comparisons) {
    if (is_undecided(comparison)) judge(comparison, explanation);
  }
  return explanation.choices;
}

std::string summary(const LegalReport& report) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (const ChoiceFinding& choice : report.choices) {
    if (!choice.of_the_contract) add(choice.id + " " + choice.value);
  }
  const std::int64_t by_ulp = report.heads - report.heads_unexplained - report.heads_by_sum_order -
                              report.heads_by_ulp[LegalReport::kMostUlps];
  if (by_ulp > 0) add("rsqrt in " + counted_heads(by_ulp));
  if (report.heads_by_sum_order > 0) {
    add("sumsq_order in " + counted_heads(report.heads_by_sum_order));
  }
  return text;
}

}  // namespace zerodiff::compare
