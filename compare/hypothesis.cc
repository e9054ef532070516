#include "compare/hypothesis.h"

#include <algorithm>

namespace zerodiff::compare {

bool Hypothesis::changes(Branch branch) const {
  return std::ranges::find(branches, branch) != branches.end();
}

HeadSteps evaluate_head(const HeadContract& contract, const Hypothesis* hypothesis,
                        const HeadAt& at) {
  static const Mutation kNone;
  const bool mutated = hypothesis != nullptr && hypothesis->changes(at.branch);
  const Mutation& m = mutated ? hypothesis->mutation : kNone;
  const HeadAt from = m.content ? m.content(contract, at) : at;
  const std::int64_t first = m.source ? m.source(contract, from) : contract.first_element(from);
  HeadSteps steps;
  steps.x = contract.read(first);
  steps.y = m.norm ? m.norm(contract, from, steps.x) : contract.norm(from, steps.x);
  steps.z = m.rope ? m.rope(contract, from, steps.y) : contract.rope(from, steps.y);
  // K stored in V's place, or V in K's, keeps its own scale.
  const bool swapped = contract.scaled(at.branch) && contract.scaled(from.branch);
  const HeadAt stored{swapped ? from.branch : at.branch, at.token, at.head};
  const bool copied =
      from.branch == Branch::v && !is_fp8(contract.stored_type(at.branch)) && !m.encode;
  if (copied) {
    steps.bits = contract.read_bits(first);  // NaN payloads included
  } else {
    steps.bits = m.encode ? m.encode(contract, at, steps.z) : contract.encode(stored, steps.z);
  }
  return steps;
}

std::int64_t place_of(const HeadContract& contract, const Hypothesis& hypothesis, const HeadAt& at,
                      std::int64_t dim) {
  const auto& place = hypothesis.mutation.place;
  if (!place || !hypothesis.changes(at.branch)) return contract.place(at, dim);
  const std::int64_t flat = place(contract, at, dim);
  return flat >= 0 && flat < contract.stored_elements(at.branch) ? flat : -1;
}

std::string storing_stage(Branch branch) {
  if (branch == Branch::k || branch == Branch::v) return "reshape_and_cache";
  return branch == Branch::index_k ? "index_cache_insert" : "qk_norm_rope";
}

std::vector<Hypothesis> hypotheses_for(const HeadContract& contract, Branch branch) {
  Hypotheses list;
  add_code_hypotheses(contract, branch, list);
  add_scale_hypotheses(contract, branch, list);
  add_norm_hypotheses(contract, branch, list);
  add_rope_hypotheses(contract, branch, list);
  add_rope_position_hypotheses(contract, branch, list);
  add_source_hypotheses(contract, branch, list);
  add_unwritten_hypotheses(branch, list);
  add_layout_hypotheses(contract, branch, list);
  add_slot_hypotheses(contract, branch, list);
  return list;
}

}  // namespace zerodiff::compare
