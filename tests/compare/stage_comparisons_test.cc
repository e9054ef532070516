#include "compare/stage_comparisons.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/error.h"
#include "tests/compare/attention_inputs.h"
#include "tests/compare/softmax_kernel.h"

namespace zerodiff::compare {
namespace {

class StageComparisons : public testing::Test {
 protected:
  StageComparisons()
      : attention_(random_case(test::kBfloat16, 6, {5, 300, 700}, 2, 1, 1, 3)),
        path_(attention_.outputs),
        allowed_(attention_.call.config) {
    path_.attn_output = run({.name = "", .splits = 3}, attention_.call, attention_.outputs);
  }

  std::vector<Comparison> judge() {
    std::vector<Comparison> comparisons(1);
    comparisons[0].output = "attn_output";
    comparisons[0].gates = true;
    add_stage_comparisons(attention_.call, attention_.outputs, {"path", &path_, &claims_, true},
                          allowed_, 1, comparisons);
    return comparisons;
  }
  Comparison attention() { return judge().back(); }

  AttentionCase attention_;
  Outputs path_;
  Attributes claims_;
  AllowedChoices allowed_;
};

TEST_F(StageComparisons, TakeTheGateFromTheEndToEndDifference) {
  const std::vector<Comparison> comparisons = judge();
  ASSERT_EQ(comparisons.size(), 5U);
  EXPECT_FALSE(comparisons[0].gates);
  for (std::size_t i = 1; i < comparisons.size(); ++i) {
    EXPECT_TRUE(comparisons[i].gates);
    EXPECT_EQ(comparisons[i].scope, Scope::stage);
    EXPECT_TRUE(is_right(comparisons[i].verdict)) << comparisons[i].output;
  }
  EXPECT_EQ(comparisons.back().verdict, Verdict::bounded);
  EXPECT_EQ(comparisons.back().judged_stage->accumulator, "tensor_fp32");
  EXPECT_GT(comparisons.back().total.max_abs_error, 0);
}

TEST_F(StageComparisons, NeedTheirChoicesToBeAllowed) {
  allowed_.replace("accumulate", {"in_order"}, "test");
  EXPECT_EQ(attention().verdict, Verdict::fault);
  EXPECT_EQ(attention().note,
            "needs accumulate tensor_fp32, which the contract in force does not allow");
}

TEST_F(StageComparisons, BelieveClaimsThatAreAllowed) {
  path_.attn_output =
      run({.name = "", .p_dtype = PDtype::fp8}, attention_.call, attention_.outputs);
  claims_["p_dtype"] = std::string("fp8");
  EXPECT_EQ(attention().verdict, Verdict::fault);
  EXPECT_EQ(attention().diagnoses.size(), 1U);
  allowed_.allow("p_dtype", "fp8", "test");
  EXPECT_EQ(attention().verdict, Verdict::bounded);
}

TEST_F(StageComparisons, NeedAnAllowanceForAnotherOrderOfTheSelection) {
  auto ids = path_.topk_index.as<std::int32_t>();
  std::swap(ids[3], ids[4]);  // token 1 selects three blocks
  const auto verdict = [&] { return judge()[2].verdict; };
  EXPECT_EQ(verdict(), Verdict::legal);
  allowed_.replace("topk_order", {"score"}, "test");
  EXPECT_EQ(verdict(), Verdict::fault);
}

TEST_F(StageComparisons, RefuseClaimsWithoutMeaning) {
  claims_["accumulator"] = std::string("fp64");
  EXPECT_THROW(judge(), Error);
}

}  // namespace
}  // namespace zerodiff::compare
