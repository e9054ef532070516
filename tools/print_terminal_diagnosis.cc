#include "tools/print_terminal_diagnosis.h"

#include <fmt/format.h>

#include <set>

#include "tools/terminal.h"

namespace zerodiff::tools {
namespace {

std::string labelled(std::size_t indent, std::string_view label, const std::string& text) {
  return wrapped(fmt::format("{:{}}{:<11} ", "", indent, label), printable(text));
}

std::string coverage(const compare::Explanation& explanation) {
  return fmt::format("{}: {}; explains {} of {}", explanation.id, explanation.detail,
                     grouped(explanation.explained), grouped(explanation.of));
}

// Each id once; the same class may be tried in several ways.
std::string tied_ids(const compare::Diagnosis& diagnosis) {
  std::set<std::string> ids;
  for (const compare::Explanation& tie : diagnosis.ties) {
    if (tie.id != diagnosis.id()) ids.insert(tie.id);
  }
  std::string text;
  for (const std::string& id : ids) text += (text.empty() ? "" : ", ") + id;
  return text;
}

std::string clause_text(const compare::InferredClause& clause) {
  const std::string decided =
      clause.told && clause.deciding > 0
          ? fmt::format("{} ({})", clause.inferred, counted(clause.deciding, "element"))
          : clause.inferred;
  const std::string declared = clause.agrees ? "" : ", declared " + clause.declared;
  return fmt::format("{} {}{}", clause.name, decided, declared);
}

}  // namespace

std::string diagnosis_lines(const compare::Diagnosis& diagnosis, std::size_t indent) {
  std::string text;
  if (diagnosis.best) {
    text += labelled(indent, "diagnosis",
                     fmt::format("{}, at {}", coverage(*diagnosis.best), diagnosis.stage));
    const std::string ties = tied_ids(diagnosis);
    if (!ties.empty()) text += labelled(indent, "same bits", ties);
    if (diagnosis.runner_up) text += labelled(indent, "next", coverage(*diagnosis.runner_up));
  } else {
    text += labelled(indent, "diagnosis", "unexplained, at " + diagnosis.stage);
    if (diagnosis.runner_up) text += labelled(indent, "best", coverage(*diagnosis.runner_up));
  }
  return text + labelled(indent, "pattern", diagnosis.pattern);
}

std::string inference_text(const compare::Fp8Inference& inference) {
  if (!inference.found) {
    return fmt::format("no contract gives 95 % of the {} codes", grouped(inference.elements));
  }
  std::string text;
  for (const compare::InferredClause& clause : inference.clauses) {
    text += (text.empty() ? "" : "; ") + clause_text(clause);
  }
  if (inference.unexplained > 0) {
    text += fmt::format("; {} of {} codes are another contract's", grouped(inference.unexplained),
                        grouped(inference.elements));
  }
  return text;
}

std::string inference_lines(const compare::Fp8Inference& inference, std::size_t indent) {
  return labelled(indent, inference.tensor, inference_text(inference));
}

}  // namespace zerodiff::tools
