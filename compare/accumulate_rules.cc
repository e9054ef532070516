#include "compare/accumulate_rules.h"

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <variant>

#include "fixtures/error.h"

namespace zerodiff::compare {
namespace {

constexpr std::array kAccumulators{Accumulator::fp32, Accumulator::tensor_fp32,
                                   Accumulator::tensor_fp8};
constexpr std::array kPDtypes{PDtype::model_dtype, PDtype::fp32, PDtype::fp8};

template <class E, std::size_t N>
std::optional<E> value_named(const std::array<E, N>& values, std::string_view name) {
  for (const E value : values) {
    if (name == name_of(value)) return value;
  }
  return std::nullopt;
}

template <class E, std::size_t N>
std::optional<E> claimed(const Attributes& claims, const std::string& name, std::string_view where,
                         const std::array<E, N>& values) {
  const auto found = claims.find(name);
  if (found == claims.end()) return std::nullopt;
  const auto* const text = std::get_if<std::string>(&found->second);
  const std::optional<E> value = text ? value_named(values, *text) : std::nullopt;
  if (value) return value;
  std::string wanted;
  for (const E known : values) wanted += (wanted.empty() ? "" : ", ") + std::string(name_of(known));
  throw Error::input(std::string(where), name, describe(found->second), "one of " + wanted);
}

}  // namespace

const char* name_of(Accumulator accumulator) {
  switch (accumulator) {
    case Accumulator::fp32:
      return "fp32";
    case Accumulator::tensor_fp32:
      return "tensor_fp32";
    default:
      return "tensor_fp8";
  }
}

const char* name_of(PDtype p_dtype) {
  switch (p_dtype) {
    case PDtype::model_dtype:
      return "model_dtype";
    case PDtype::fp32:
      return "fp32";
    default:
      return "fp8";
  }
}

std::optional<Accumulator> accumulator_from_name(std::string_view name) {
  return value_named(kAccumulators, name);
}

std::optional<PDtype> p_dtype_from_name(std::string_view name) {
  return value_named(kPDtypes, name);
}

double unit_roundoff(Accumulator accumulator) {
  switch (accumulator) {
    case Accumulator::fp32:
      return 0x1p-24;
    case Accumulator::tensor_fp32:
      return 0x1p-23;
    default:
      return 0x1p-13;
  }
}

Accumulator AccumulateRules::for_scores(ElementType index_cache_type) const {
  if (is_fp8(index_cache_type)) return accumulator.value_or(Accumulator::tensor_fp8);
  return for_query_key();
}

Accumulator AccumulateRules::for_query_key() const {
  return accumulator == Accumulator::fp32 ? Accumulator::fp32 : Accumulator::tensor_fp32;
}

Accumulator AccumulateRules::for_values() const {
  const bool fp8 = p_dtype == PDtype::fp8 && accumulator == Accumulator::tensor_fp8;
  return fp8 ? Accumulator::tensor_fp8 : for_query_key();
}

AccumulateRules accumulate_rules(const Attributes& claims, std::string_view where) {
  AccumulateRules rules;
  rules.accumulator = claimed(claims, "accumulator", where, kAccumulators);
  rules.p_dtype = claimed(claims, "p_dtype", where, kPDtypes).value_or(PDtype::model_dtype);
  return rules;
}

double accumulated_roundings(Accumulator accumulator, double terms) {
  const double lost = terms * unit_roundoff(accumulator);
  return lost < 1 ? lost / (1 - lost) : std::numeric_limits<double>::infinity();
}

double sum_error(Accumulator accumulator, double terms, double magnitude, double sum) {
  return accumulated_roundings(accumulator, terms) * (magnitude + std::fabs(sum)) / 2;
}

}  // namespace zerodiff::compare
