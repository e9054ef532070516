// Diagnoses and inferred contracts as JSON values. Heavy, like json_values.h: for printers' .cc
// files only.
#pragma once

#include "compare/diagnosis.h"
#include "compare/fp8_inference.h"
#include "tools/json_values.h"

namespace zerodiff::tools {

// "diagnosis" and "fp8_inference" of docs/report.schema.json.
Json diagnosis_json(const compare::Diagnosis& diagnosis);
Json inference_json(const compare::Fp8Inference& inference);

}  // namespace zerodiff::tools
