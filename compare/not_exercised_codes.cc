// What a call cannot show about scales, element types and codes.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "compare/element_order.h"
#include "compare/not_exercised_rules.h"

namespace zerodiff::compare {
namespace {

bool all_are(const std::vector<float>& values, float wanted) {
  return !values.empty() &&
         std::all_of(values.begin(), values.end(), [&](float v) { return v == wanted; });
}

Why unit_scales(const Facts& facts) {
  const bool k = all_are(facts.k_scales, 1);
  const bool v = all_are(facts.v_scales, 1);
  const std::string which = k && v ? "k_scale and v_scale are" : k ? "k_scale is" : "v_scale is";
  return when(k || v, which + " 1, so a missing or inverted scale cannot show");
}

Why equal_scales(const Facts& facts) {
  return when(!facts.k_scales.empty() && facts.k_scales == facts.v_scales,
              "k_scale and v_scale are equal, so one in the other's place cannot show");
}

bool power_of_two(float value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5F;
}

Why power_of_two_scales(const Facts& facts) {
  std::vector<float> all = facts.k_scales;
  all.insert(all.end(), facts.v_scales.begin(), facts.v_scales.end());
  return when(!all.empty() && std::all_of(all.begin(), all.end(), power_of_two),
              "every scale is a power of two, so dividing and multiplying by the reciprocal agree");
}

Why uniform_scales(const Facts& facts) {
  const bool per_slot = facts.config().scale_granularity == ScaleGranularity::head_slot;
  return when(per_slot && !facts.k_scales.empty() &&
                  all_are(facts.k_scales, facts.k_scales.front()) &&
                  all_are(facts.v_scales, facts.v_scales.front()),
              "all scales of the stored slots are equal, so a wrong head or slot of a scale cannot "
              "show");
}

Why no_fp8_kv_cache(const Facts& facts) {
  return when(!facts.fp8_kv(), "K and V are stored in the model dtype, so no scale is applied");
}

Why no_16bit_cache(const Facts& facts) {
  return when(facts.fp8_kv(),
              "the K/V cache is fp8 (x = 16 only), where the V layout equals plain "
              "[head][dim][page]");
}

Why no_fp8_index_cache(const Facts& facts) {
  return when(!facts.config().skip_index_branch && !facts.config().index_cache_dtype,
              "index K is stored in the model dtype, so its fp8 conversion cannot show");
}

// Sum of one count over the tensors of the first path; nullopt if there are none.
std::optional<std::int64_t> codes(const Facts& facts, std::int64_t Fp8TensorReport::*count) {
  if (facts.fp8.tensors.empty()) return std::nullopt;
  std::int64_t sum = 0;
  for (const Fp8TensorReport& tensor : facts.fp8.tensors) {
    if (tensor.path == facts.fp8.tensors.front().path) sum += tensor.*count;
  }
  return sum;
}

Why no_saturation(const Facts& facts) {
  return when(codes(facts, &Fp8TensorReport::saturated) == 0,
              "no stored value saturates, so the overflow rule cannot show");
}

Why no_top_octave(const Facts& facts) {
  return when(codes(facts, &Fp8TensorReport::top_octave_codes) == 0,
              "no stored code is in the format's top octave, so saturating early cannot show");
}

Why no_subnormal_codes(const Facts& facts) {
  return when(codes(facts, &Fp8TensorReport::subnormal_codes) == 0,
              "no stored code is subnormal, so flushing them to zero cannot show");
}

Why no_negative_underflow(const Facts& facts) {
  return when(codes(facts, &Fp8TensorReport::negative_underflows) == 0,
              "no negative value rounds to zero, so a wrong code for it cannot show");
}

Why no_nan_inputs(const Facts& facts) {
  const auto bits = facts.call.qkv.as<std::uint16_t>();
  const ElementOrder order = element_order(facts.call.model_dtype());
  const bool nan =
      std::any_of(bits.begin(), bits.end(), [&](std::uint16_t v) { return order.is_nan(v); });
  return when(!nan, "qkv has no NaN, so NaN codes and payloads cannot show");
}

constexpr std::array kRules{
    Rule{"unit_scales", unit_scales},
    Rule{"equal_scales", equal_scales},
    Rule{"power_of_two_scales", power_of_two_scales},
    Rule{"uniform_scales", uniform_scales},
    Rule{"no_fp8_kv_cache", no_fp8_kv_cache},
    Rule{"no_16bit_cache", no_16bit_cache},
    Rule{"no_fp8_index_cache", no_fp8_index_cache},
    Rule{"no_saturation", no_saturation},
    Rule{"no_top_octave", no_top_octave},
    Rule{"no_subnormal_codes", no_subnormal_codes},
    Rule{"no_negative_underflow", no_negative_underflow},
    Rule{"no_nan_inputs", no_nan_inputs},
};

}  // namespace

std::span<const Rule> code_rules() {
  return kRules;
}

}  // namespace zerodiff::compare
