// One tensor of one path under one combination of choices after another: which of its heads each
// explains.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "compare/build_choices.h"
#include "compare/insertion_heads.h"
#include "compare/legal_report.h"
#include "compare/norm_factor.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// Counts over the heads of a tensor, as in LegalReport.
struct ExplainedHeads {
  std::int64_t heads = 0;
  std::array<std::int64_t, 2 * LegalReport::kMostUlps + 1> by_ulp{};
  std::int64_t by_sum_order = 0;
  std::int64_t largest_move = 0;
  std::int64_t unexplained = 0;
  std::int64_t elements_explained = 0;  // of those that differ from the contract
  std::int64_t elements_unexplained = 0;
  std::int64_t first_unexplained = -1;  // a head of InsertionHeads
  bool cut_short = false;               // no better than the contract: nothing else is known

  std::int64_t moved() const;  // explained heads whose r is not the contract's
  void add(std::int64_t head, std::optional<std::int32_t> move, std::int64_t mismatches);
  void add(const ExplainedHeads& more);
};

class TensorExplanation {
 public:
  // All references must outlive it. `contract` and `got` are the output that holds the heads,
  // under the contract in force and as the path has it.
  TensorExplanation(const LayerCall& call, const WrittenSlots& written, HeadTensor tensor,
                    const Outputs& contract, const Outputs& got, const FactorFreedom& freedom,
                    int threads);

  const InsertionHeads& heads() const { return heads_; }
  const std::array<bool, kBuildChoices.size()>& shown() const { return shown_; }
  bool differs() const { return !suspects_.empty(); }

  // Explained under a combination. It is cut short if it leaves more unexplained than the contract
  // does, or explains nothing of a sample of what the contract does not. Kept: choices that do not
  // show here cost nothing.
  const ExplainedHeads& under(const BuildKey& key, const BuildChoices& choices);
  // The same, never cut short.
  const ExplainedHeads& fully_under(const BuildKey& key, const BuildChoices& choices);

 private:
  BuildKey visible_part(BuildKey key) const;
  void find_suspects();
  ExplainedHeads explain(const reference::Choices& choices, bool suspects_only,
                         std::int64_t most_unexplained) const;
  ExplainedHeads cut_short_at(std::int64_t unexplained) const;
  bool explains_some_of(const std::vector<std::int64_t>& sample,
                        const reference::Choices& choices) const;
  std::vector<std::int64_t> unexplained_sample(const reference::Choices& contract) const;

  const LayerCall* call_;
  InsertionHeads heads_;
  std::array<bool, kBuildChoices.size()> shown_;
  const Tensor* contract_;
  const Tensor* got_;
  FactorFreedom freedom_;
  int threads_;
  std::vector<std::uint8_t> mismatches_;  // of each head
  std::vector<std::int64_t> suspects_;    // heads that have some
  std::vector<std::int64_t> sample_;      // of the heads that the contract leaves unexplained
  std::map<BuildKey, ExplainedHeads> known_;
};

}  // namespace zerodiff::compare
