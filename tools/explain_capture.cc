#include "tools/explain_capture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "compare/diagnose.h"
#include "compare/output_comparison.h"
#include "fixtures/error.h"
#include "reference/layer.h"
#include "tools/describe_call.h"
#include "tools/own_path.h"

namespace zerodiff::tools {
namespace {

using compare::Branch;
using compare::Comparison;
using compare::Coordinates;

constexpr std::array<std::string_view, 6> kInsertionOutputs{"q",       "index_q",  "k_cache",
                                                            "v_cache", "kv_cache", "index_cache"};

void check_output_name(const std::string& output) {
  if (output.empty() || std::ranges::find(kInsertionOutputs, output) != kInsertionOutputs.end()) {
    return;
  }
  throw Error::usage(fmt::format("--output {}: no output of the insertion stages, wanted one of {}",
                                 output, fmt::join(kInsertionOutputs, ", ")));
}

Outputs outputs_of_path(CaptureReader& reader, const ExplainOptions& options) {
  const auto& captured = reader.path_names();
  if (std::ranges::find(captured, options.path) != captured.end()) {
    return reader.read_path(options.path);
  }
  const auto own = own_path_names();
  if (std::ranges::find(own, options.path) != own.end()) {
    return run_own_path(options.path, reader.call(), {options.device, 32, options.threads, ""});
  }
  throw Error::input("/outputs", options.path, "no such path",
                     fmt::format("one of {}, {}", fmt::join(captured, ", "), fmt::join(own, ", ")));
}

std::int64_t coordinate(const Coordinates& where, std::string_view name) {
  const auto found = std::ranges::find(where, name, &Coordinates::value_type::first);
  return found == where.end() ? 0 : found->second;
}

Branch branch_named(const std::string& tensor) {
  return *std::ranges::find(compare::kBranches, tensor,
                            [](Branch branch) { return std::string(name_of(branch)); });
}

bool belongs_to(const compare::ElementDifference& difference, const std::string& output,
                Branch branch) {
  if (coordinate(difference.where, "token") < 0) return false;
  if (output != "kv_cache") return true;
  return (coordinate(difference.where, "plane") == compare::kValuePlane) == (branch == Branch::v);
}

class Explainer {
 public:
  Explainer(const LayerCall& call, const Outputs& expected, const Outputs& got,
            const ExplainOptions& options)
      : call_(call), expected_(expected), got_(got), options_(options), contract_(call) {}

  std::vector<ExplainedOutput> run() const {
    compare::CompareOptions comparing{{.threads = options_.threads}};
    // A joined pool's first differences may all be K's.
    comparing.elements.kept_differences = kKept;
    std::vector<ExplainedOutput> result;
    for (Comparison& comparison : compare::compare_outputs(
             call_, expected_, std::string(kReferencePath), got_, options_.path, comparing)) {
      if (is_wanted(comparison)) result.push_back({std::move(comparison), {}});
    }
    for (compare::DiagnosedTensor& tensor : compare::diagnose_tensors(
             call_, expected_, got_, options_.path, {.choices = {}, .threads = options_.threads})) {
      attach(tensor, result);
    }
    return result;
  }

 private:
  static constexpr std::size_t kKept = 4096;

  bool is_wanted(const Comparison& comparison) const {
    const bool made =
        std::ranges::find(kInsertionOutputs, comparison.output) != kInsertionOutputs.end() &&
        comparison.verdict != compare::Verdict::absent;
    return made && (options_.output.empty() || comparison.output == options_.output);
  }

  void attach(compare::DiagnosedTensor& tensor, std::vector<ExplainedOutput>& outputs) const {
    for (ExplainedOutput& output : outputs) {
      if (output.comparison.output != tensor.diagnosis.output) continue;
      output.tensors.push_back(explain(tensor, output.comparison));
    }
  }

  ExplainedTensor explain(compare::DiagnosedTensor& tensor, const Comparison& comparison) const {
    const compare::Hypothesis* const winner = tensor.winner ? &*tensor.winner : nullptr;
    const Branch branch = branch_named(tensor.diagnosis.tensor);
    ExplainedTensor explained{std::move(tensor.diagnosis), false, {}};
    for (const compare::ElementDifference& difference : comparison.total.first) {
      if (std::cmp_greater_equal(explained.elements.size(), options_.elements)) break;
      if (!belongs_to(difference, comparison.output, branch)) continue;
      const compare::HeadAt at{branch, coordinate(difference.where, "token"),
                               coordinate(difference.where, "head")};
      explained.elements.push_back(
          {difference,
           compare::element_history(contract_, winner, at, coordinate(difference.where, "dim"))});
      explained.has_hypothesis |= explained.elements.back().history.hypothesis.has_value();
    }
    return explained;
  }

  const LayerCall& call_;
  const Outputs& expected_;
  const Outputs& got_;
  const ExplainOptions& options_;
  compare::HeadContract contract_;
};

// Which output holds an fp8 tensor.
bool holds(const std::vector<ExplainedOutput>& outputs, const std::string& tensor) {
  const std::string own = tensor == "index_q"   ? "index_q"
                          : tensor == "index_k" ? "index_cache"
                                                : tensor + "_cache";
  return std::ranges::any_of(outputs, [&](const ExplainedOutput& output) {
    const std::string& name = output.comparison.output;
    return name == own || (name == "kv_cache" && (tensor == "k" || tensor == "v"));
  });
}

}  // namespace

PathExplanation explain_capture(const std::filesystem::path& file, const ExplainOptions& options) {
  check_output_name(options.output);
  CaptureReader reader(file, options.read);
  const LayerCall& call = reader.call();
  const Outputs got = outputs_of_path(reader, options);
  const Outputs expected = reference::run_insertion(call, {}, options.threads);
  PathExplanation explanation;
  explanation.capture = file.string();
  explanation.path = options.path;
  explanation.call = describe_call(call);
  explanation.model_dtype = call.model_dtype();
  explanation.warnings = reader.warnings();
  explanation.outputs = Explainer(call, expected, got, options).run();
  if (explanation.outputs.empty()) {
    throw Error::usage(
        fmt::format("path {} has no {} to explain", options.path,
                    options.output.empty() ? "output of the insertion stages" : options.output));
  }
  for (compare::Fp8Inference& inference : compare::infer_fp8_contract(call, {options.path, &got})) {
    if (holds(explanation.outputs, inference.tensor)) {
      explanation.fp8.push_back(std::move(inference));
    }
  }
  return explanation;
}

}  // namespace zerodiff::tools
