#include "tools/print_terminal_explain.h"

#include <fmt/format.h>

#include <cmath>

#include "tools/print_terminal_diagnosis.h"

namespace zerodiff::tools {
namespace {

using compare::ElementHistory;
using compare::ElementSteps;

constexpr std::size_t kIndent = 4;
constexpr std::size_t kColumn = 22;

std::string place_of(const compare::Coordinates& where) {
  std::string text;
  for (const auto& [name, value] : where) {
    text += text.empty() ? "" : ", ";
    text += value < 0 ? "no " + name : fmt::format("{} {}", name, value);
  }
  return text;
}

std::string step_value(float value) {
  return std::isnan(value) ? "-" : fmt::format("{:.9g}", value);
}

std::string step_bits(const ElementSteps& steps) {
  return steps.bits == compare::kAnyBits ? "any" : fmt::format("{:#04x}", steps.bits);
}

class HistoryTable {
 public:
  explicit HistoryTable(const ElementHistory& history) : history_(history) {}

  std::string print() {
    row("", "contract", "hypothesis");
    const bool value = history_.at.branch == compare::Branch::v;
    step(value ? "v" : "x", &ElementSteps::input);
    if (!value) {
      step("norm factor r", &ElementSteps::factor);
      step("normalised y", &ElementSteps::normalised);
      step("rotated z", &ElementSteps::rotated);
    }
    if (!std::isnan(history_.contract.scaled)) {
      step("quantised", &ElementSteps::quantised);
      step(fmt::format("scaled by {:.9g}", history_.scale), &ElementSteps::scaled);
    }
    row("bits", step_bits(history_.contract),
        history_.hypothesis ? step_bits(*history_.hypothesis) : "");
    row("value", readable_number(history_.contract.value),
        history_.hypothesis ? readable_number(history_.hypothesis->value) : "");
    return text_;
  }

 private:
  void step(const std::string& name, float ElementSteps::*member) {
    row(name, step_value(history_.contract.*member),
        history_.hypothesis ? step_value((*history_.hypothesis).*member) : "");
  }

  void row(const std::string& name, const std::string& contract, const std::string& hypothesis) {
    std::string line =
        fmt::format("{:{}}{:<{}}{:<{}}", "", kIndent + 4, name, kColumn, contract, kColumn);
    if (history_.hypothesis) line += hypothesis;
    text_ += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }

  const ElementHistory& history_;
  std::string text_;
};

std::string print_element(const ExplainedElement& element) {
  const compare::ElementDifference& difference = element.difference;
  const std::string indent(kIndent, ' ');
  std::string text = wrapped(indent + "element     ", place_of(difference.where));
  text += wrapped(indent + "            ",
                  fmt::format("expected {:#04x} ({}), got {:#04x} ({})", difference.expected_bits,
                              readable_number(difference.expected), difference.got_bits,
                              readable_number(difference.got)));
  return text + HistoryTable(element.history).print();
}

std::string print_output(const ExplainedOutput& output, const Painter& paint) {
  const compare::Comparison& comparison = output.comparison;
  const bool same = comparison.total.mismatches == 0;
  std::string text = "\n  " + paint(same ? Style::green : Style::red, comparison.output) + "  ";
  text += same ? fmt::format("identical in {}\n", counted(comparison.total.elements, "element"))
               : fmt::format("{} of {} elements differ\n", grouped(comparison.total.mismatches),
                             grouped(comparison.total.elements));
  for (const ExplainedTensor& tensor : output.tensors) {
    if (output.tensors.size() > 1) text += fmt::format("   {}\n", tensor.diagnosis.tensor);
    text += diagnosis_lines(tensor.diagnosis, kIndent);
    for (const ExplainedElement& element : tensor.elements) text += print_element(element);
  }
  return text;
}

}  // namespace

std::string print_explanation(const PathExplanation& explanation, const Painter& paint) {
  std::string text =
      paint(Style::bold, printable(explanation.capture) + ": " + explanation.path) + "\n";
  text += wrapped("  ", printable(explanation.call));
  for (const ExplainedOutput& output : explanation.outputs) text += print_output(output, paint);
  if (!explanation.fp8.empty()) text += "\n  fp8 contract as the codes tell it\n";
  for (const compare::Fp8Inference& inference : explanation.fp8) {
    text += inference_lines(inference, kIndent);
  }
  for (const std::string& warning : explanation.warnings) {
    text += wrapped("  warning: ", printable(warning));
  }
  return text;
}

}  // namespace zerodiff::tools
