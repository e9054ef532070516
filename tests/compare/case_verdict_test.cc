// From the parts of a report to its outcome.
#include "compare/case_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zerodiff::compare {
namespace {

using testing::HasSubstr;

Comparison comparison(const std::string& path, const std::string& output, Verdict verdict,
                      bool gates) {
  Comparison result;
  result.path = path;
  result.output = output;
  result.against = "reference";
  result.verdict = verdict;
  result.gates = gates;
  if (verdict == Verdict::absent) {
    result.note = path + " does not have it";
    return result;
  }
  result.total.elements = 4096;
  if (verdict == Verdict::identical) return result;
  result.total.mismatches = 12;
  ElementDifference first;
  first.flat_index = 17;
  first.where = {{"token", 3}, {"dim", 17}};
  result.total.first = {first};
  return result;
}

Fp8TensorReport broken_tensor(const std::string& path, bool gates) {
  Fp8TensorReport tensor;
  tensor.gates = gates;
  tensor.path = path;
  tensor.tensor = "k";
  tensor.conforms = false;
  tensor.clauses = {{"code", "", true, 100, 0, ""}, {"nan", "", true, 100, 7, "first at token 2"}};
  return tensor;
}

CaseReport passing() {
  CaseReport report;
  report.comparisons = {comparison("fused", "q", Verdict::identical, true),
                        comparison("fused", "k_cache", Verdict::identical, true),
                        comparison("atom_fused", "q", Verdict::different, false),
                        comparison("atom_fused", "v_cache", Verdict::absent, false)};
  report.fp8_contract.tensors = {broken_tensor("atom_fused", false)};
  report.slot_map.verdict = SlotMapVerdict::equivalent;
  return report;
}

TEST(CaseVerdictTest, PathsThatDoNotGateDecideNothing) {
  const CaseVerdict verdict = case_verdict(passing());
  EXPECT_EQ(verdict.outcome, Outcome::passed);
  EXPECT_EQ(verdict.reason, "");
}

TEST(CaseVerdictTest, AGatingDifferenceFails) {
  CaseReport report = passing();
  report.comparisons[1] = comparison("fused", "k_cache", Verdict::different, true);
  const CaseVerdict verdict = case_verdict(report);
  EXPECT_EQ(verdict.outcome, Outcome::failed);
  EXPECT_EQ(
      verdict.reason,
      "fused: k_cache differs from reference in 12 of 4096 elements, first at token 3, dim 17");
}

TEST(CaseVerdictTest, TheReasonNamesTheFirstFaultAndCountsTheRest) {
  CaseReport report = passing();
  report.comparisons[0] = comparison("fused", "q", Verdict::different, true);
  report.comparisons[0].total.first[0].where.clear();
  report.comparisons[1] = comparison("fused", "k_cache", Verdict::different, true);
  report.fp8_contract.tensors.push_back(broken_tensor("fused", true));
  EXPECT_EQ(case_verdict(report).reason,
            "fused: q differs from reference in 12 of 4096 elements, first at element 17 (and 2 "
            "more)");
}

TEST(CaseVerdictTest, ASlotMapThatIsNotEquivalentFailsWhateverGates) {
  for (const bool anything_gates : {true, false}) {
    CaseReport report = anything_gates ? passing() : CaseReport();
    report.slot_map.verdict = SlotMapVerdict::not_equivalent;
    report.slot_map.reason = "1 stale entries past num_tokens";
    const CaseVerdict verdict = case_verdict(report);
    EXPECT_EQ(verdict.outcome, Outcome::failed);
    EXPECT_EQ(verdict.reason, "slot map not equivalent: 1 stale entries past num_tokens");
  }
}

TEST(CaseVerdictTest, ASlotMapThatDoesNotApplyDecidesNothing) {
  CaseReport report = passing();
  report.slot_map.verdict = SlotMapVerdict::not_applicable;
  report.slot_map.reason = "the call has no page16_slot_mapping";
  EXPECT_EQ(case_verdict(report).outcome, Outcome::passed);
}

TEST(CaseVerdictTest, TheFp8ContractOfGatingTensorsGates) {
  for (const std::string path : {"fused", "reference"}) {
    CaseReport report = passing();
    report.fp8_contract.tensors.push_back(broken_tensor(path, true));
    const CaseVerdict verdict = case_verdict(report);
    EXPECT_EQ(verdict.outcome, Outcome::failed);
    EXPECT_EQ(verdict.reason, path +
                                  ": k breaks clause nan of the fp8 contract in 7 of 100 "
                                  "elements, first at token 2");
  }
}

TEST(CaseVerdictTest, AGatingAbsenceIsMissing) {
  CaseReport report = passing();
  report.comparisons[1] = comparison("fused", "k_cache", Verdict::absent, true);
  const CaseVerdict verdict = case_verdict(report);
  EXPECT_EQ(verdict.outcome, Outcome::missing);
  EXPECT_EQ(verdict.reason, "fused: k_cache is absent, fused does not have it");
  report.comparisons[0] = comparison("fused", "q", Verdict::different, true);
  EXPECT_EQ(case_verdict(report).outcome, Outcome::failed);
}

TEST(CaseVerdictTest, NothingToCompareIsMissing) {
  CaseReport report;
  report.comparisons = {comparison("fused", "q", Verdict::identical, true)};
  report.comparisons[0].total.elements = 0;
  const CaseVerdict verdict = case_verdict(report);
  EXPECT_EQ(verdict.outcome, Outcome::missing);
  EXPECT_THAT(verdict.reason, HasSubstr("no element"));
}

TEST(CaseVerdictTest, NothingThatGatesIsSkipped) {
  CaseReport report = passing();
  for (Comparison& one : report.comparisons) one.gates = false;
  const CaseVerdict verdict = case_verdict(report);
  EXPECT_EQ(verdict.outcome, Outcome::skipped);
  EXPECT_NE(verdict.reason, "");
  EXPECT_EQ(case_verdict(CaseReport()).outcome, Outcome::skipped);
}

class GatingVerdict : public testing::TestWithParam<std::pair<Verdict, Outcome>> {};

TEST_P(GatingVerdict, DecidesTheCase) {
  CaseReport report = passing();
  report.comparisons.push_back(comparison("atom_fused", "k_cache", GetParam().first, true));
  EXPECT_EQ(case_verdict(report).outcome, GetParam().second);
  report.comparisons.back().gates = false;
  EXPECT_EQ(case_verdict(report).outcome, Outcome::passed);
}

INSTANTIATE_TEST_SUITE_P(EachVerdict, GatingVerdict,
                         testing::Values(std::pair{Verdict::identical, Outcome::passed},
                                         std::pair{Verdict::legal, Outcome::passed},
                                         std::pair{Verdict::bounded, Outcome::passed},
                                         std::pair{Verdict::fault, Outcome::failed},
                                         std::pair{Verdict::different, Outcome::failed}),
                         [](const auto& row) { return std::string(name_of(row.param.first)); });

TEST(CaseVerdictTest, AFaultSaysHowManyHeadsNothingExplains) {
  CaseReport report = passing();
  report.comparisons.push_back(comparison("atom_fused", "k_cache", Verdict::fault, true));
  report.comparisons.back().legal.emplace();
  report.comparisons.back().legal->heads = 16;
  report.comparisons.back().legal->heads_unexplained = 3;
  EXPECT_THAT(case_verdict(report).reason, HasSubstr("no allowed choice explains 3 of 16 heads"));
}

TEST(CaseVerdictTest, AClaimOfAnotherContractIsAFaultUnlessAllowed) {
  CaseReport report = passing();
  report.claims = {{"atom_fused", "quantize_from", "fp32", "model_dtype", true, false, true}};
  const CaseVerdict verdict = case_verdict(report);
  EXPECT_EQ(verdict.outcome, Outcome::failed);
  EXPECT_EQ(verdict.reason, "atom_fused: claims quantize_from fp32, the contract has model_dtype");
  report.claims[0].allowed = true;
  EXPECT_EQ(case_verdict(report).outcome, Outcome::passed);
  report.claims[0].allowed = false;
  report.claims[0].gates = false;
  EXPECT_EQ(case_verdict(report).outcome, Outcome::passed);
}

}  // namespace
}  // namespace zerodiff::compare
