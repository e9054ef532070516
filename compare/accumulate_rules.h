// What is free where the order of a sum is free: the accumulator and the type of P that bounds are
// derived from (docs/numerics.md sections 14 and 17).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "fixtures/capture_attributes.h"
#include "fixtures/element_type.h"

namespace zerodiff::compare {

// How a kernel adds up products.
enum class Accumulator : std::uint8_t {
  fp32,         // binary32 additions, rounded to nearest
  tensor_fp32,  // matrix instructions that align and truncate to 24 bits
  tensor_fp8,   // the same with about 14 bits: matrix instructions for fp8 operands
};
const char* name_of(Accumulator accumulator);
std::optional<Accumulator> accumulator_from_name(std::string_view name);

// What one addition may lose, as a share of the larger of its operands and its result:
// 2^-24 (half a unit in the last place of 24 bits), 2^-23 and 2^-13 (a whole one of 24, of 14).
double unit_roundoff(Accumulator accumulator);

// The type that the weights of V are rounded to.
enum class PDtype : std::uint8_t { model_dtype, fp32, fp8 };
const char* name_of(PDtype p_dtype);
std::optional<PDtype> p_dtype_from_name(std::string_view name);

struct AccumulateRules {
  std::optional<Accumulator> accumulator;  // nullopt: the path claims none
  PDtype p_dtype = PDtype::model_dtype;
  bool exact_topk_order = false;  // the contract in force asks for rank order

  // Of index scores, by the type of their operands; of q . k, whose operands have the model dtype;
  // of p . v. tensor_fp8 is meant only where both operands are fp8.
  Accumulator for_scores(ElementType index_cache_type) const;
  Accumulator for_query_key() const;
  Accumulator for_values() const;
};

// `accumulator` and `p_dtype` of a path's claims; others are left alone. Throws Error (kInput) for
// a value that has no meaning; `where` names the path.
AccumulateRules accumulate_rules(const Attributes& claims, std::string_view where);

// Bound of the error of a sum of `terms` products in any order and grouping, from the sum of their
// sizes and the size of their exact sum. A partial sum is a sum over a subset, so its size is at
// most P = (magnitude + |sum|) / 2, and each of `terms` additions loses at most the unit u of P and
// of what was lost before: n u P / (1 - n u). Infinite where n u reaches 1. Underflow is apart.
double sum_error(Accumulator accumulator, double terms, double magnitude, double sum);

// n u / (1 - n u), infinite where n u reaches 1.
double accumulated_roundings(Accumulator accumulator, double terms);

}  // namespace zerodiff::compare
