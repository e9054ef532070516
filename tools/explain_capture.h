// One path of a capture, explained: the flow behind `zerodiff explain`, without any printing.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compare/diagnosis.h"
#include "compare/element_history.h"
#include "compare/fp8_inference.h"
#include "compare/report.h"
#include "fixtures/capture.h"

namespace zerodiff::tools {

struct ExplainOptions {
  std::string path;    // of the capture, or an own path if the capture has none of that name
  std::string output;  // a name of kOutputFields that insertion makes; empty: all of them
  int elements = 3;    // whose history is told, for each tensor
  int threads = 0;     // 0: one for each core
  std::string device = "auto";  // of the own paths
  ReadOptions read;
};

// A mismatching element that a row owns.
struct ExplainedElement {
  compare::ElementDifference difference;
  compare::ElementHistory history;
};

struct ExplainedTensor {
  compare::Diagnosis diagnosis;
  bool has_hypothesis = false;  // whether the histories have a hypothesis's side
  std::vector<ExplainedElement> elements;
};

struct ExplainedOutput {
  compare::Comparison comparison;
  std::vector<ExplainedTensor> tensors;  // two for a joined pool in which K and V differ
};

struct PathExplanation {
  std::string capture;
  std::string path;
  std::string call;  // describe_call
  ElementType model_dtype = ElementType::bfloat16;
  std::vector<ExplainedOutput> outputs;
  std::vector<compare::Fp8Inference> fp8;  // of the fp8 tensors of these outputs
  std::vector<std::string> warnings;
};

// Throws Error: kInput for an invalid capture, or a path that neither it nor this build has; kUsage
// for an output that insertion does not make or the path lacks; as run_own_path for an own path.
PathExplanation explain_capture(const std::filesystem::path& file, const ExplainOptions& options);

}  // namespace zerodiff::tools
