#include "compare/element_history.h"

#include <limits>

#include "compare/mismatch_set.h"
#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

ElementSteps steps_of(const HeadContract& contract, const Hypothesis* hypothesis, const HeadAt& at,
                      std::int64_t dim) {
  const auto d = static_cast<std::size_t>(dim);
  const HeadSteps head = evaluate_head(contract, hypothesis, at);
  const ElementType type = contract.stored_type(at.branch);
  const bool own_norm = hypothesis != nullptr && hypothesis->mutation.norm != nullptr;
  const bool own_codes = hypothesis != nullptr && hypothesis->mutation.encode != nullptr;
  ElementSteps steps;
  steps.input = head.x[d];
  steps.factor = at.branch == Branch::v || own_norm ? kNone : contract.norm_factor(head.x);
  steps.normalised = head.y[d];
  steps.rotated = head.z[d];
  steps.quantised = own_codes ? kNone : contract.to_quantise(at.branch, head.z)[d];
  const bool divides = contract.code_contract(at.branch).scale_op == ScaleOp::divide;
  const float scale = contract.scale(at);
  steps.scaled = divides ? steps.quantised / scale : steps.quantised * (1.0F / scale);
  if (!is_fp8(type)) steps.quantised = steps.scaled = kNone;
  steps.bits = head.bits[d];
  const double unscaled =
      steps.bits == kAnyBits ? static_cast<double>(kNone) : reference::value_of(type, steps.bits);
  steps.value = is_fp8(type) ? unscaled * static_cast<double>(scale) : unscaled;
  return steps;
}

}  // namespace

ElementHistory element_history(const HeadContract& contract, const Hypothesis* hypothesis,
                               const HeadAt& at, std::int64_t dim) {
  ElementHistory history;
  history.at = at;
  history.dim = dim;
  history.scale = contract.scale(at);
  history.contract = steps_of(contract, nullptr, at, dim);
  if (hypothesis != nullptr && !hypothesis->moves()) {
    history.hypothesis = steps_of(contract, hypothesis, at, dim);
  }
  return history;
}

std::optional<OwnedElement> first_mismatch(const HeadContract& contract, Branch branch,
                                           const Tensor& expected, const Tensor& got) {
  JudgedTensor tensor;
  tensor.branch = branch;
  tensor.expected = &expected;
  tensor.got = &got;
  tensor.prepare();
  const StoredBits wanted(expected);
  const StoredBits found(got);
  for (std::int64_t token = 0; token < contract.call().config.num_tokens; ++token) {
    for (std::int64_t head = 0; head < contract.heads(branch); ++head) {
      const HeadAt at{branch, token, head};
      if (contract.place(at, 0) < 0) continue;
      for (std::int64_t d = 0; d < kHeadDim; ++d) {
        const std::int64_t flat = contract.place(at, d);
        if (!tensor.same(wanted.at(flat), found.at(flat))) return OwnedElement{at, d, flat};
      }
    }
  }
  return std::nullopt;
}

}  // namespace zerodiff::compare
