// The fp8 contract that a tensor was written by, inferred from its codes, the scales and the
// high-precision input alone (docs/verdicts.md, section 3), and held against the declared one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/fp8_contract.h"
#include "compare/fp8_inference_report.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// What an element tells of a contract; the declared contract is not an input.
struct Fp8Sample {
  std::uint8_t code = 0;
  float z = 0;            // unrounded fp32
  float rounded = 0;      // z rounded to the model dtype; for V both are the value
  float scale = 1;        // of the element's head and slot
  float first_scale = 1;  // the scale of head 0 and slot 0
};

// What the call declares of a tensor, in the words of InferredClause.
struct DeclaredFp8 {
  ElementType format = ElementType::float8_e4m3fn;
  bool scaled = true;  // false: unit scale, as index tensors have
  ScaleOp scale_op = ScaleOp::multiply_reciprocal;
  QuantizeFrom source = QuantizeFrom::model_dtype;
  bool source_matters = true;  // false for V
  Overflow overflow = Overflow::saturate;
  ScaleGranularity granularity = ScaleGranularity::tensor;
};

// Tries every contract on the samples. The clauses stand in the order above; "direction",
// "operation" and "granularity" only for scaled tensors, "source" only where it matters.
Fp8Inference infer_fp8(const std::vector<Fp8Sample>& samples, const DeclaredFp8& declared);

// The same for every fp8 tensor of a path, from at most `most_elements` written elements of each,
// evenly spread over the rows.
std::vector<Fp8Inference> infer_fp8_contract(const LayerCall& call, const PathOutputs& path,
                                             std::int64_t most_elements = 16384);

}  // namespace zerodiff::compare
