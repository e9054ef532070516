// Diagnoses as text.
#pragma once

#include <string>

#include "compare/diagnosis.h"
#include "compare/fp8_inference.h"

namespace zerodiff::tools {

// Complete lines, each `indent` columns in: the best explanation with its coverage, ties and
// runner-up, and the pattern.
std::string diagnosis_lines(const compare::Diagnosis& diagnosis, std::size_t indent);

// Every clause as the codes tell it, with the number of deciding elements, and what is declared
// where that differs. In one line, and as lines that begin with the tensor's name.
std::string inference_text(const compare::Fp8Inference& inference);
std::string inference_lines(const compare::Fp8Inference& inference, std::size_t indent);

}  // namespace zerodiff::tools
