#include "compare/case_verdict.h"

#include <algorithm>
#include <vector>

namespace zerodiff::compare {
namespace {

std::string place_of(const ElementDifference& difference) {
  std::string text;
  for (const auto& [name, value] : difference.where) {
    text += (text.empty() ? "" : ", ") + name + " " + std::to_string(value);
  }
  return text.empty() ? "element " + std::to_string(difference.flat_index) : text;
}

std::string describe(const Comparison& comparison) {
  const Tally& total = comparison.total;
  std::string text = comparison.path + ": " + comparison.output + " differs from " +
                     comparison.against + " in " + std::to_string(total.mismatches) + " of " +
                     std::to_string(total.elements) + " elements";
  if (!total.first.empty()) text += ", first at " + place_of(total.first.front());
  if (comparison.legal && !comparison.legal->explains_all()) {
    text += "; no allowed choice explains " + std::to_string(comparison.legal->heads_unexplained) +
            " of " + std::to_string(comparison.legal->heads) + " heads";
  }
  for (const Diagnosis& diagnosis : comparison.diagnoses) text += "; " + describe(diagnosis);
  return text;
}

std::string describe(const ClaimReport& claim) {
  return claim.path + ": claims " + claim.name + " " + claim.claimed + ", the contract has " +
         claim.contract;
}

std::string describe(const Fp8TensorReport& tensor) {
  for (const Fp8Clause& clause : tensor.clauses) {
    if (clause.violations == 0) continue;
    return tensor.path + ": " + tensor.tensor + " breaks clause " + clause.name +
           " of the fp8 contract in " + std::to_string(clause.violations) + " of " +
           std::to_string(clause.checked) + " elements" +
           (clause.detail.empty() ? "" : ", " + clause.detail);
  }
  return tensor.path + ": " + tensor.tensor + " does not conform to the fp8 contract";
}

void add_side_effects(const CaseReport& report, std::vector<std::string>& faults) {
  for (const WriteSetReport& set : report.write_set) {
    if (set.holds()) continue;
    faults.push_back(set.path + ": the write set of " + set.output +
                     " is not the slot mapping's: " + std::to_string(set.missed_bytes) +
                     " bytes missed, " + std::to_string(set.extra_bytes) + " extra, " +
                     std::to_string(set.fill_dependent_bytes) + " dependent on the fill");
  }
  for (const GraphSafeReport& replay : report.graph_safe) {
    if (replay.equivalent) continue;
    faults.push_back(replay.path + ": graph-safe " + std::string(name_of(replay.scope)) +
                     " differs from eager with " + replay.first_difference);
  }
  for (const RepeatReport& repeat : report.repeats) {
    if (repeat.equal) continue;
    faults.push_back(repeat.path + ": a run is not the first one's bytes, " +
                     repeat.first_difference);
  }
  for (const InvarianceReport& invariance : report.invariance) {
    if (invariance.invariant) continue;
    faults.push_back(invariance.path + ": a row depends on its place in the batch, " +
                     invariance.first_difference);
  }
  for (const PoisonReport& poison : report.poison) {
    if (poison.unchanged) continue;
    faults.push_back(poison.path + ": what no live token reads changes the result under " +
                     poison.fill + " poison, " + poison.first_difference);
  }
}

std::vector<std::string> faults_of(const CaseReport& report) {
  std::vector<std::string> faults;
  if (report.slot_map.verdict == SlotMapVerdict::not_equivalent) {
    faults.push_back("slot map not equivalent: " + report.slot_map.reason);
  }
  for (const PathFault& fault : report.path_faults) {
    faults.push_back(fault.path + ": " + fault.text);
  }
  for (const Comparison& comparison : report.comparisons) {
    if (!comparison.gates) continue;
    if (!is_right(comparison.verdict) && comparison.verdict != Verdict::absent) {
      faults.push_back(describe(comparison));
    }
  }
  for (const ClaimReport& claim : report.claims) {
    if (claim.gates && !claim.allowed) faults.push_back(describe(claim));
  }
  for (const Fp8TensorReport& tensor : report.fp8_contract.tensors) {
    if (!tensor.conforms && tensor.gates) faults.push_back(describe(tensor));
  }
  add_side_effects(report, faults);
  return faults;
}

std::vector<std::string> gaps_of(const CaseReport& report) {
  std::vector<std::string> gaps;
  std::int64_t elements = 0;
  for (const Comparison& comparison : report.comparisons) {
    if (!comparison.gates) continue;
    elements += comparison.total.elements;
    if (comparison.verdict == Verdict::absent) {
      gaps.push_back(comparison.path + ": " + comparison.output + " is absent" +
                     (comparison.note.empty() ? "" : ", " + comparison.note));
    }
  }
  if (gaps.empty() && elements == 0) gaps.emplace_back("there was no element to compare");
  return gaps;
}

std::string summary(const std::vector<std::string>& findings) {
  std::string text = findings.front();
  if (findings.size() > 1) text += " (and " + std::to_string(findings.size() - 1) + " more)";
  return text;
}

}  // namespace

CaseVerdict case_verdict(const CaseReport& report) {
  const std::vector<std::string> faults = faults_of(report);
  if (!faults.empty()) return {Outcome::failed, summary(faults)};
  const bool anything_gates =
      std::any_of(report.comparisons.begin(), report.comparisons.end(),
                  [](const Comparison& comparison) { return comparison.gates; });
  if (!anything_gates) {
    return {Outcome::skipped, "no comparison gates, so nothing could have failed"};
  }
  const std::vector<std::string> gaps = gaps_of(report);
  if (!gaps.empty()) return {Outcome::missing, summary(gaps)};
  return {Outcome::passed, ""};
}

}  // namespace zerodiff::compare
