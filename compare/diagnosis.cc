#include "compare/diagnosis.h"

namespace zerodiff::compare {
namespace {

std::string describe(const Explanation& explanation) {
  return explanation.id + " (" + explanation.detail + "), explains " +
         std::to_string(explanation.explained) + " of " + std::to_string(explanation.of);
}

}  // namespace

std::string describe(const Diagnosis& diagnosis) {
  std::string text = diagnosis.tensor + " at " + diagnosis.stage + ": ";
  if (diagnosis.best) {
    text += describe(*diagnosis.best);
    if (diagnosis.runner_up) text += "; next: " + describe(*diagnosis.runner_up);
  } else {
    text += "unexplained";
    if (diagnosis.runner_up) text += " (best: " + describe(*diagnosis.runner_up) + ")";
  }
  return text + "; " + diagnosis.pattern;
}

}  // namespace zerodiff::compare
