// Reports that no captured call gives: printed from data.
#include <gtest/gtest.h>

#include <limits>

#include "tools/command_verify.h"
#include "tools/print_json.h"
#include "tools/print_terminal.h"
#include "tools/verify_capture.h"

namespace zerodiff::tools {
namespace {

using compare::Outcome;

const Painter kPlain(false);

CaseResult case_of(Outcome outcome, std::string reason = "because") {
  CaseResult result;
  result.report.capture = std::string("call.h5");
  result.report.outcome = outcome;
  result.report.reason = std::move(reason);
  result.call = std::string("heads 16/1/1");
  result.rerun = std::string("zerodiff verify call.h5");
  return result;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// docs/verdicts.md, section 5: nobody knows whether the file is valid.
TEST(Verify, CallsAProbeThatRanOutOfTimeTimedOut) {
  VerifyOptions options;
  options.read.probe_timeout_seconds = 0;
  const CaseResult result = verify_capture("fixtures/captured/m3_small_decode_fp8.h5", options,
                                           [](const std::string&) {});
  EXPECT_EQ(result.report.outcome, Outcome::timed_out) << result.report.reason;
  EXPECT_TRUE(contains(result.report.reason, "m3_small_decode_fp8.h5: contents: HDF5 took more"))
      << result.report.reason;
}

TEST(ExitCodes, FollowTheOutcome) {
  EXPECT_EQ(exit_code_of(Outcome::passed), ExitCode::kPassed);
  EXPECT_EQ(exit_code_of(Outcome::failed), ExitCode::kFailed);
  EXPECT_EQ(exit_code_of(Outcome::mistrusted), ExitCode::kFailed);
  EXPECT_EQ(exit_code_of(Outcome::missing), ExitCode::kFailed);
  EXPECT_EQ(exit_code_of(Outcome::invalid_input), ExitCode::kBadInput);
  EXPECT_EQ(exit_code_of(Outcome::crashed), ExitCode::kInfrastructure);
  EXPECT_EQ(exit_code_of(Outcome::timed_out), ExitCode::kInfrastructure);
  EXPECT_EQ(worse_of(ExitCode::kBadInput, ExitCode::kFailed), ExitCode::kBadInput);
  EXPECT_EQ(worse_of(ExitCode::kBadInput, ExitCode::kInfrastructure), ExitCode::kInfrastructure);
}

TEST(Summary, CountsEveryOutcome) {
  const std::vector<CaseResult> cases{
      case_of(Outcome::passed),    case_of(Outcome::failed),        case_of(Outcome::failed),
      case_of(Outcome::missing),   case_of(Outcome::mistrusted),    case_of(Outcome::crashed),
      case_of(Outcome::timed_out), case_of(Outcome::invalid_input), case_of(Outcome::skipped)};
  EXPECT_EQ(print_summary(cases, kPlain),
            "1 passed, 2 failed, 1 missing, 1 mistrusted, 1 invalid, 1 crashed, 1 timed out, "
            "1 skipped\n");
  EXPECT_EQ(print_summary({}, kPlain), "0 passed, 0 failed\n");
}

TEST(Case, ReRunLineStandsUnlessItPassed) {
  EXPECT_TRUE(contains(print_case(case_of(Outcome::timed_out), kPlain), "re-run: zerodiff verify"));
  EXPECT_FALSE(contains(print_case(case_of(Outcome::passed, ""), kPlain), "re-run"));
}

TEST(Case, SlotMapNamesTheFirstFault) {
  CaseResult result = case_of(Outcome::failed);
  auto& map = result.report.slot_map;
  map.verdict = compare::SlotMapVerdict::not_equivalent;
  map.reason = std::string("row 3 goes elsewhere");
  map.scheduled_rows = 5;
  map.stored_rows = 4;
  map.graph_buffer_present = true;
  map.graph_buffer_used = true;
  map.graph_buffer_length = 8;
  map.differing_rows = 1;
  map.stale_entries = 2;
  map.first_difference = {3, 1, 200, {300, 18, 12}, {-1, -1, -1}};
  const std::string text = print_case(result, kPlain);
  for (const char* part :
       {"not equivalent: row 3 goes elsewhere", "4 of 5 scheduled rows stored",
        "buffer of 8 entries in use", "1 differing rows", "2 stale entries",
        "row 3, request 1, position 200", "slot 300 (page 18, offset 12)", "(stores nothing)"}) {
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  }
}

compare::Comparison nan_comparison() {
  compare::Comparison comparison;
  comparison.output = std::string("q");
  comparison.path = std::string("fused");
  comparison.against = std::string("reference");
  comparison.verdict = compare::Verdict::different;
  comparison.total.elements = 10;
  comparison.total.mismatches = 1;
  comparison.total.max_abs_error = std::numeric_limits<double>::infinity();
  comparison.total.max_ulp = std::numeric_limits<std::uint64_t>::max();
  compare::ElementDifference worst;
  worst.where = {{"slot", 7}, {"token", -1}};
  worst.got = std::numeric_limits<double>::quiet_NaN();
  worst.expected_bits = 0x3f80;
  worst.expected = -std::numeric_limits<double>::infinity();
  comparison.total.worst = worst;
  return comparison;
}

TEST(Case, ShowsInfinityNanAndAbsentCoordinates) {
  CaseResult result = case_of(Outcome::passed, "");
  result.report.comparisons.push_back(nan_comparison());
  const std::string text = print_case(result, kPlain);
  EXPECT_TRUE(contains(text, "slot 7, no token: expected -inf (0x3f80), got nan (0x0)")) << text;
  EXPECT_TRUE(contains(text, "inf")) << text;
  EXPECT_TRUE(contains(text, "1 output of fused differs and did not gate (--paths fused makes it "))
      << text;
}

TEST(Json, HasStringsForWhatJsonHasNoNumberFor) {
  CaseResult result = case_of(Outcome::passed, "");
  result.report.comparisons.push_back(nan_comparison());
  result.report.warnings.emplace_back("\xff is not UTF-8");
  const std::string text = print_json("verify", "cpu", {&result, 1});
  for (const char* part :
       {R"("max_abs_error": "inf")", R"("max_ulp": "nan")", R"("got": "nan")",
        R"("expected": "-inf")", R"("expected_bits": "0x3f80")", R"("token": -1)"}) {
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  }
}

}  // namespace
}  // namespace zerodiff::tools
