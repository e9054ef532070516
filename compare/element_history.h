// The history of one element of an insertion output: from the packed row to the stored bits, by the
// contract and by a hypothesis.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "compare/hypothesis.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// One element on its way. NaN where a step does not apply.
struct ElementSteps {
  float input = 0;       // x, decoded
  float factor = 0;      // r of the head (V: none)
  float normalised = 0;  // y (V: the input)
  float rotated = 0;     // z (V: the input)
  float quantised = 0;   // what is scaled: z, or z rounded to the model dtype
  float scaled = 0;      // by the contract's operation; fp8 only
  std::uint32_t bits = 0;
  double value = 0;  // of the bits, decoded and descaled
};

struct ElementHistory {
  HeadAt at;
  std::int64_t dim = 0;
  float scale = 1;
  ElementSteps contract;
  // Under the hypothesis. `factor`, `quantised` and `scaled` are those of a kernel that is wrong in
  // the hypothesis's own step only, NaN where the hypothesis replaces the step.
  std::optional<ElementSteps> hypothesis;
};

ElementHistory element_history(const HeadContract& contract, const Hypothesis* hypothesis,
                               const HeadAt& at, std::int64_t dim);

// The first element, in the order of rows, heads and dims, that a row owns and that mismatches;
// nullopt if only elements without an
// owner changed.
struct OwnedElement {
  HeadAt at;
  std::int64_t dim = 0;
  std::int64_t flat = 0;
};
std::optional<OwnedElement> first_mismatch(const HeadContract& contract, Branch branch,
                                           const Tensor& expected, const Tensor& got);

}  // namespace zerodiff::compare
