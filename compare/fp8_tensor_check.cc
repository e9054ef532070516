#include "compare/fp8_tensor_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "compare/element_order.h"
#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

bool is_nan_code(ElementType format, std::uint8_t code) {
  return std::isnan(reference::decode_fp8(format, code));
}

std::string hex(std::uint8_t code) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "0x%02x", code);
  return text.data();
}

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

// "first at token 3, head 0, dim 17: ...", or nothing if there was none.
template <class Clause>
std::string first_violation(const Clause& clause) {
  if (!clause.first) return "";
  const Fp8Element& element = clause.first->element;
  return "first at token " + std::to_string(element.token) + ", head " +
         std::to_string(element.head) + ", dim " + std::to_string(element.dim) + ": input " +
         number(static_cast<double>(element.input)) + ", code " + hex(element.code) +
         ", contract " + hex(clause.first->contract_code);
}

int exponent_field(ElementType format, std::uint8_t code) {
  return (code & 0x7F) >> reference::fp8_range(format).mantissa_bits;
}

}  // namespace

void Fp8TensorCheck::Clause::check(bool holds, const Violation& violation) {
  ++checked;
  if (holds) return;
  ++violations;
  if (!first) first = violation;
}

void Fp8TensorCheck::Clause::append(const Clause& later) {
  checked += later.checked;
  violations += later.violations;
  if (!first) first = later.first;
}

void Fp8TensorCheck::add(const Fp8Element& element) {
  const Violation seen{
      element, reference::quantize(spec_.format, element.input, element.scale, spec_.contract)};
  count(element, seen.contract_code);
  check_code(seen);
  check_error(seen);
}

void Fp8TensorCheck::add_scale(float scale) {
  const bool holds = std::isfinite(scale) && scale > 0;
  scale_.check(holds, {});
  if (!holds && !bad_scale_) bad_scale_ = scale;
}

void Fp8TensorCheck::count(const Fp8Element& element, std::uint8_t contract_code) {
  const reference::Fp8Range& range = reference::fp8_range(spec_.format);
  const float value = reference::decode_fp8(spec_.format, element.code);
  const int field = exponent_field(spec_.format, element.code);
  ++counts_.written;
  if (std::isnan(element.input)) ++counts_.nan_inputs;
  if (std::isnan(value)) ++counts_.nan_codes;
  if (value == 0) ++counts_.zero_codes;
  if (value != 0 && field == 0 && !std::isnan(value)) ++counts_.subnormal_codes;
  if (std::isfinite(value) && field == exponent_field(spec_.format, range.largest_code)) {
    ++counts_.top_octave_codes;
  }
  if (std::signbit(element.input) && reference::decode_fp8(spec_.format, contract_code) == 0) {
    ++counts_.negative_underflows;
  }
}

void Fp8TensorCheck::check_code(const Violation& seen) {
  const std::uint8_t code = seen.element.code;
  const bool nan = is_nan_code(spec_.format, code);
  const bool contract_nan = is_nan_code(spec_.format, seen.contract_code);
  code_.check(code == seen.contract_code || (nan && contract_nan), seen);
  nan_.check(!nan || contract_nan || std::isnan(seen.element.input), seen);
  if (!nan && !contract_nan && element_order(spec_.format).steps(code, seen.contract_code) == 1) {
    ++off_by_one_;
  }
}

bool Fp8TensorCheck::overflows(const Fp8Element& element, std::uint8_t contract_code) const {
  const std::uint8_t largest = reference::fp8_range(spec_.format).largest_code;
  const float contract_value = reference::decode_fp8(spec_.format, contract_code);
  if (std::abs(contract_value) < reference::decode_fp8(spec_.format, largest)) return false;
  reference::ScaleContract unbounded = spec_.contract;
  unbounded.overflow = Overflow::nan;
  const auto code = reference::quantize(spec_.format, element.input, element.scale, unbounded);
  if (!is_nan_code(spec_.format, code)) return false;
  unbounded.overflow = Overflow::saturate;
  return !is_nan_code(spec_.format,
                      reference::quantize(spec_.format, element.input, element.scale, unbounded));
}

void Fp8TensorCheck::check_error(const Violation& seen) {
  const Fp8Element& element = seen.element;
  if (std::isnan(element.input)) return;
  if (overflows(element, seen.contract_code)) {
    const std::uint8_t largest = reference::fp8_range(spec_.format).largest_code;
    const int sign = std::signbit(element.input) ? 0x80 : 0;
    if (element.code == (largest | sign)) {
      ++counts_.saturated;
      return;
    }
    const bool both_nan =
        is_nan_code(spec_.format, element.code) && is_nan_code(spec_.format, seen.contract_code);
    if (element.code == seen.contract_code || both_nan) return;
  }
  const auto scale = static_cast<double>(element.scale);
  const auto value = static_cast<double>(reference::decode_fp8(spec_.format, element.code));
  const double error = std::abs(value * scale - static_cast<double>(element.input));
  const double step = reference::fp8_step(spec_.format, element.code) * scale;
  const bool within = error <= 0.5 * step * (1 + 0x1p-20);
  const bool contract_code = element.code == seen.contract_code;
  if (!within && contract_code) ++contract_beyond_bound_;
  error_bound_.check(within || contract_code, seen);
  if (std::isfinite(error)) {
    counts_.largest_error_steps = std::max(counts_.largest_error_steps, error / step);
  }
  if (!spec_.index) return;
  const bool unit_scale = error <= step;
  unit_scale_.check(unit_scale, seen);
  if (!unit_scale && spec_.suspected_scale &&
      element.code == reference::quantize(spec_.format, element.input, *spec_.suspected_scale,
                                          spec_.contract)) {
    ++explained_by_scale_;
  }
}

void Fp8TensorCheck::append(const Fp8TensorCheck& later) {
  counts_.written += later.counts_.written;
  counts_.saturated += later.counts_.saturated;
  counts_.nan_codes += later.counts_.nan_codes;
  counts_.zero_codes += later.counts_.zero_codes;
  counts_.subnormal_codes += later.counts_.subnormal_codes;
  counts_.top_octave_codes += later.counts_.top_octave_codes;
  counts_.negative_underflows += later.counts_.negative_underflows;
  counts_.nan_inputs += later.counts_.nan_inputs;
  counts_.largest_error_steps =
      std::max(counts_.largest_error_steps, later.counts_.largest_error_steps);
  code_.append(later.code_);
  nan_.append(later.nan_);
  error_bound_.append(later.error_bound_);
  scale_.append(later.scale_);
  unit_scale_.append(later.unit_scale_);
  off_by_one_ += later.off_by_one_;
  contract_beyond_bound_ += later.contract_beyond_bound_;
  explained_by_scale_ += later.explained_by_scale_;
  if (!bad_scale_) bad_scale_ = later.bad_scale_;
}

std::string Fp8TensorCheck::code_detail() const {
  if (code_.violations == 0) return "";
  return std::to_string(off_by_one_) + " of " + std::to_string(code_.violations) +
         " by one code; " + first_violation(code_);
}

std::string Fp8TensorCheck::error_detail() const {
  std::string detail = first_violation(error_bound_);
  if (contract_beyond_bound_ > 0) {
    if (!detail.empty()) detail += "; ";
    detail += std::to_string(contract_beyond_bound_) +
              " codes of the contract itself are past the bound by its own binary32 roundings";
  }
  return detail;
}

std::string Fp8TensorCheck::scale_detail() const {
  return bad_scale_ ? "a scale is " + number(static_cast<double>(*bad_scale_)) : "";
}

std::string Fp8TensorCheck::unit_scale_detail() const {
  std::string detail = first_violation(unit_scale_);
  if (explained_by_scale_ > 0) {
    detail += "; " + std::to_string(explained_by_scale_) + " of " +
              std::to_string(unit_scale_.violations) + " are the codes that k_scale " +
              number(static_cast<double>(*spec_.suspected_scale)) + " gives";
  }
  return detail;
}

Fp8TensorReport Fp8TensorCheck::report() const {
  Fp8TensorReport result = counts_;
  result.path = spec_.path;
  result.tensor = spec_.tensor;
  result.format = name_of(spec_.format);
  const auto add = [&](const char* name, std::string declared, const Clause& clause,
                       std::string detail) {
    result.clauses.push_back(
        {name, std::move(declared), true, clause.checked, clause.violations, std::move(detail)});
    result.conforms = result.conforms && clause.violations == 0;
  };
  add("code", spec_.declared_code, code_, code_detail());
  add("nan", std::string(name_of(spec_.contract.overflow)), nan_, first_violation(nan_));
  add("error_bound", "half a step", error_bound_, error_detail());
  if (spec_.index) {
    add("index_unit_scale", "1", unit_scale_, unit_scale_detail());
  } else {
    add("scale", spec_.declared_scale, scale_, scale_detail());
  }
  return result;
}

}  // namespace zerodiff::compare
