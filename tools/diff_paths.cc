#include "tools/diff_paths.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "compare/output_comparison.h"
#include "fixtures/capture_config.h"
#include "fixtures/error.h"
#include "tools/attribute_text.h"
#include "tools/describe_call.h"
#include "tools/rerun.h"

namespace zerodiff::tools {
namespace {

using compare::Comparison;
using compare::Verdict;

// Outputs have one type and shape if these inputs and the configuration have.
constexpr std::array<InputField, 5> kShapedInputs{{{"qkv", &LayerCall::qkv},
                                                   {"k_cache", &LayerCall::k_cache},
                                                   {"v_cache", &LayerCall::v_cache},
                                                   {"kv_cache", &LayerCall::kv_cache},
                                                   {"index_cache", &LayerCall::index_cache}}};

std::string describe_shape(const Tensor& tensor) {
  if (!tensor.present()) return "none";
  return fmt::format("{} {}", name_of(tensor.type()), to_string(tensor.shape()));
}

void check_same_configuration(const LayerCall& expected, const LayerCall& got,
                              const std::string& file) {
  const Attributes wanted = attributes_of(expected.config);
  for (const auto& [name, value] : attributes_of(got.config)) {
    if (value == wanted.at(name)) continue;
    throw Error::input("/config", name, to_text(value),
                       to_text(wanted.at(name)) + " as in the other call")
        .inside(file);
  }
  for (const InputField& field : kShapedInputs) {
    const std::string found = describe_shape(got.*field.tensor);
    const std::string want = describe_shape(expected.*field.tensor);
    if (found == want) continue;
    throw Error::input("/inputs", field.name, found, want + " as in the other call").inside(file);
  }
}

std::vector<std::string> differing_inputs(const LayerCall& expected, const LayerCall& got) {
  std::vector<std::string> names;
  for (const InputField& field : kInputFields) {
    if (!identical(expected.*field.tensor, got.*field.tensor)) names.emplace_back(field.name);
  }
  if (names.empty()) return {};
  return {fmt::format("the two calls differ in {}: the paths did not see the same inputs",
                      fmt::join(names, ", "))};
}

bool same_file(const StoredPath& a, const StoredPath& b) {
  std::error_code ignored;
  return std::filesystem::equivalent(a.file, b.file, ignored);
}

// Why the two are not the same, or empty.
std::string describe_verdict(const std::vector<Comparison>& comparisons) {
  std::vector<std::string> different;
  std::vector<std::string> one_sided;
  for (const Comparison& comparison : comparisons) {
    if (comparison.verdict == Verdict::absent) {
      one_sided.push_back(comparison.output);
    } else if (comparison.verdict != Verdict::identical) {
      different.push_back(comparison.output);
    }
  }
  std::vector<std::string> parts;
  if (!different.empty()) parts.push_back(fmt::format("{} differ", fmt::join(different, ", ")));
  if (!one_sided.empty()) {
    parts.push_back(fmt::format("only one side has {}", fmt::join(one_sided, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

// The layer call gives these outputs no meaning under skip_index_branch; here they are bytes that
// two paths have stored, like any other.
void compare_ignored_outputs(const Outputs& expected, const Outputs& got, int threads,
                             std::vector<Comparison>& comparisons) {
  for (Comparison& comparison : comparisons) {
    const bool is_index_q = comparison.output == "index_q";
    if (!is_index_q && comparison.output != "index_cache") continue;
    const Tensor& a = is_index_q ? expected.index_q : expected.index_cache;
    const Tensor& b = is_index_q ? got.index_q : got.index_cache;
    if (!a.present() || !b.present()) continue;
    compare::ElementMap map;
    map.regions = {{"all", true, a.size()}};
    comparison.regions = compare::compare_elements(a, b, map, {.threads = threads});
    comparison.total = compare::total_of(comparison.regions);
    comparison.verdict = comparison.total.mismatches == 0 ? Verdict::identical : Verdict::different;
    comparison.note = "the call skips the index branch";
  }
}

std::vector<Comparison> compare_stored(const LayerCall& call, const Outputs& expected,
                                       const std::string& expected_name, const Outputs& got,
                                       const std::string& path, int threads) {
  const compare::CompareOptions options{{.threads = threads}, true, true};
  std::vector<Comparison> comparisons =
      compare::compare_outputs(call, expected, expected_name, got, path, options);
  if (call.config.skip_index_branch) {
    compare_ignored_outputs(expected, got, threads, comparisons);
  }
  for (Comparison& comparison : comparisons) {
    comparison.gates = true;
    comparison.against = expected_name;
  }
  return comparisons;
}

void decide(compare::CaseReport& report) {
  if (std::ranges::all_of(report.comparisons, [](const Comparison& comparison) {
        return comparison.verdict == Verdict::absent;
      })) {
    throw Error::input(report.capture, "diff", "no output that both paths have", "at least one");
  }
  report.reason = describe_verdict(report.comparisons);
  if (!report.reason.empty()) report.outcome = compare::Outcome::failed;
}

}  // namespace

StoredPath parse_stored_path(std::string_view argument) {
  const std::size_t colon = argument.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == argument.size()) {
    throw Error::usage(fmt::format("diff: '{}' is not FILE:PATH, such as call.h5:fused", argument));
  }
  return {std::string(argument.substr(0, colon)), std::string(argument.substr(colon + 1))};
}

CaseResult diff_paths(const StoredPath& expected, const StoredPath& got,
                      const DiffOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  CaseResult result;
  compare::CaseReport& report = result.report;
  CaptureReader reader(expected.file, options.read);
  const Outputs wanted = reader.read_path(expected.path);
  Outputs found;
  if (same_file(expected, got)) {
    found = reader.read_path(got.path);
  } else {
    CaptureReader other(got.file, options.read);
    check_same_configuration(reader.call(), other.call(), got.file.string());
    report.warnings = differing_inputs(reader.call(), other.call());
    found = other.read_path(got.path);
  }
  report.capture = expected.file.string();
  report.comparisons =
      compare_stored(reader.call(), wanted, expected.label(), found, got.label(), options.threads);
  decide(report);
  result.call = describe_call(reader.call());
  result.one_pair = true;
  result.path_names = reader.path_names();
  result.rerun =
      fmt::format("zerodiff diff {} {}", shell_quoted(expected.label()), shell_quoted(got.label()));
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace zerodiff::tools
