#include "compare/allowed_choices.h"

#include <algorithm>
#include <array>

#include "fixtures/error.h"

namespace zerodiff::compare {
namespace {

constexpr std::array<std::string_view, 7> kUndeclared{
    "rope_contraction", "rsqrt",      "sumsq_order", "score_scale",
    "topk_ties",        "topk_order", "accumulate"};

std::string list_of(const std::vector<std::string_view>& names) {
  std::string list;
  for (const std::string_view name : names) list += (list.empty() ? "" : ", ") + std::string(name);
  return list;
}

const ChoiceId& known(std::string_view id, std::string_view where) {
  const auto& all = choice_ids();
  const auto found = std::ranges::find(all, id, &ChoiceId::id);
  if (found != all.end()) return *found;
  std::vector<std::string_view> ids;
  ids.reserve(all.size());
  for (const ChoiceId& choice : all) ids.push_back(choice.id);
  throw Error::usage(std::string(where) + ": unknown choice '" + one_line(id) +
                     "', wanted one of " + list_of(ids));
}

}  // namespace

void check_choice(std::string_view id, std::string_view value, std::string_view where) {
  const ChoiceId& choice = known(id, where);
  if (std::ranges::find(choice.values, value) != choice.values.end()) return;
  throw Error::usage(std::string(where) + ": " + std::string(choice.id) + " has no value '" +
                     one_line(value) + "', wanted one of " + list_of(choice.values));
}

const std::vector<ChoiceId>& choice_ids() {
  static const std::vector<ChoiceId> kIds{
      {"rope_contraction", {"fma_cos", "separate", "fma_sin"}},
      {"rsqrt", {"0", "1", "2"}},
      {"sumsq_order", {"lane_sum128", "any"}},
      {"norm_materialised", {"false", "true"}},
      {"quantize_from", {"model_dtype", "fp32"}},
      {"scale_op", {"multiply_reciprocal", "divide"}},
      {"overflow", {"saturate", "nan", "inf"}},
      {"index_q_from", {"fp32", "model_dtype"}},
      {"score_scale", {"none", "sm_scale_log2e"}},
      {"topk_ties", {"lowest_id", "any"}},
      {"topk_order", {"score", "any"}},
      {"accumulate", {"in_order", "fp32", "tensor_fp32", "tensor_fp8"}},
      {"p_dtype", {"model_dtype", "fp32", "fp8"}},
  };
  return kIds;
}

AllowedChoices AllowedChoices::contract_only(const LayerConfig& config) {
  AllowedChoices allowed(config);
  for (const ChoiceId& choice : choice_ids()) {
    allowed.values_.find(choice.id)->second.resize(1);
  }
  return allowed;
}

AllowedChoices::AllowedChoices(const LayerConfig& config)
    : has_infinity_(config.kv_cache_dtype == ElementType::float8_e5m2) {
  for (const ChoiceId& choice : choice_ids()) {
    auto& allowed = values_[std::string(choice.id)];
    const bool undeclared = std::ranges::find(kUndeclared, choice.id) != kUndeclared.end();
    const std::size_t count = undeclared ? choice.values.size() : 1;
    allowed.assign(choice.values.begin(),
                   choice.values.begin() + static_cast<std::ptrdiff_t>(count));
  }
  values_["quantize_from"] = {std::string(name_of(config.quantize_from))};
  values_["scale_op"] = {std::string(name_of(config.scale_op))};
  values_["overflow"] = {std::string(name_of(config.overflow))};
  values_["index_q_from"] = {std::string(name_of(config.index_q_from))};
}

const std::vector<std::string>& AllowedChoices::values(std::string_view id) const {
  return values_.find(known(id, "choices").id)->second;
}

bool AllowedChoices::allows(std::string_view id, std::string_view value) const {
  const auto& allowed = values(id);
  return std::ranges::find(allowed, value) != allowed.end();
}

void AllowedChoices::allow(std::string_view id, std::string_view value, std::string_view where) {
  check_choice(id, value, where);
  if (value == "inf" && !has_infinity_) return;
  if (!allows(id, value)) values_.find(id)->second.emplace_back(value);
}

void AllowedChoices::replace(std::string_view id, const std::vector<std::string>& values,
                             std::string_view where) {
  if (values.empty()) {
    throw Error::usage(std::string(where) + ": no value for " + std::string(id) +
                       ", wanted one or more of " + list_of(known(id, where).values));
  }
  for (const std::string& value : values) check_choice(id, value, where);
  std::vector<std::string> kept;
  for (const std::string& value : values) {
    const bool again = std::ranges::find(kept, value) != kept.end();
    if (!again && (value != "inf" || has_infinity_)) kept.push_back(value);
  }
  if (!kept.empty()) values_.find(id)->second = std::move(kept);
}

}  // namespace zerodiff::compare
