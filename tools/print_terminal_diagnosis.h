// Diagnoses as text.
#pragma once

#include <string>

#include "compare/diagnosis.h"
#include "compare/fp8_inference.h"

namespace zerodiff::tools {

// Complete lines, each `indent` columns in: the best explanation with its coverage, ties and
// runner-up, and the pattern.
std::string diagnosis_lines(const compare::Diagnosis& diagnosis, std::size_t indent);

// One line of clauses that differ from the declared contract or cannot be told, each with the
// number of deciding elements.
std::string inference_lines(const compare::Fp8Inference& inference, std::size_t indent);

}  // namespace zerodiff::tools
