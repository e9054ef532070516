// Insertion as real kernels vary it: choices per build, and a norm factor of its own for each head.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compare/allowed_choices.h"
#include "fixtures/layer_call.h"
#include "reference/choices.h"
#include "reference/qk_norm_rope.h"

namespace zerodiff::compare {

// r of one head from its input; `n` counts the heads of the call in the order in which they run.
using FactorRule = std::function<float(reference::ConstHeadSpan x, float eps, std::int64_t n)>;

// The outputs of a kernel with these choices that takes r from `rule`. rsqrt_ulp and sumsq_order
// of `choices` are not read.
Outputs insertion_with_factors(const LayerCall& call, const reference::Choices& choices,
                               const FactorRule& rule);

// One row of numerics.md section 14: what it does to a kernel that keeps the call's contract.
struct VariantRow {
  std::string name;  // "rope_separate"
  std::string id;    // "rope_contraction"
  // Sets the choice; for a declared choice, a value that the call does not declare.
  std::function<void(const LayerConfig& config, reference::Choices& choices)> choose;
  std::function<float(reference::ConstHeadSpan x, std::int64_t n)> sum;  // of squares, its way
  std::function<int(std::int64_t n)> move;                               // r by so many ulp
  bool declared = false;  // legal only if it is allowed by name
};
std::vector<VariantRow> variant_rows();

// A kernel that makes all of these choices; at most one of the rows sums, and one moves.
Outputs variant(const LayerCall& call, const std::vector<VariantRow>& rows);

// The value that a variant has for a choice per build.
std::string value_in(const std::vector<VariantRow>& rows, const LayerConfig& config,
                     const std::string& id);

// What the call allows, with the rows' own values on top.
AllowedChoices allowing(const std::vector<VariantRow>& rows, const LayerConfig& config);

}  // namespace zerodiff::compare
