#include "compare/not_exercised.h"

#include "compare/not_exercised_rules.h"

namespace zerodiff::compare {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

std::vector<float> scales_in_use(const LayerCall& call, const Tensor& scale,
                                 const std::vector<std::int64_t>& slots) {
  if (!call.config.kv_cache_dtype || !scale.present()) return {};
  const auto values = scale.as<float>();
  if (call.config.scale_granularity == ScaleGranularity::tensor) return {values[0]};
  std::vector<float> used;
  for (std::int64_t head = 0; head < call.config.num_kv_heads; ++head) {
    for (const std::int64_t slot : slots)
      used.push_back(values[at(head * call.num_slots() + slot)]);
  }
  return used;
}

Facts facts_of(const LayerCall& call, const Fp8ContractReport& fp8) {
  Facts facts{call, fp8, {}, {}, {}, {}};
  const auto positions = call.positions.as<std::int64_t>();
  const auto slots = call.slot_mapping.as<std::int64_t>();
  for (std::size_t row = 0; row < at(call.config.num_tokens); ++row) {
    if (positions[row] < 0) continue;
    facts.positions.push_back(positions[row]);
    if (slots[row] >= 0) facts.slots.push_back(slots[row]);
  }
  facts.k_scales = scales_in_use(call, call.k_scale, facts.slots);
  facts.v_scales = scales_in_use(call, call.v_scale, facts.slots);
  return facts;
}

}  // namespace

std::vector<std::string> not_exercised(const LayerCall& call, const Fp8ContractReport& fp8) {
  const Facts facts = facts_of(call, fp8);
  std::vector<std::string> lines;
  for (const auto& rules : {code_rules(), row_rules(), pool_rules()}) {
    for (const Rule& rule : rules) {
      if (const Why why = rule.why(facts)) lines.push_back(std::string(rule.id) + ": " + *why);
    }
  }
  return lines;
}

}  // namespace zerodiff::compare
