#include "compare/accumulate_rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "fixtures/error.h"

namespace zerodiff::compare {
namespace {

TEST(AccumulateRules, TakeTheClaims) {
  const AccumulateRules rules = accumulate_rules(
      {{"accumulator", std::string("tensor_fp8")}, {"p_dtype", std::string("fp32")}}, "path");
  EXPECT_EQ(rules.accumulator, Accumulator::tensor_fp8);
  EXPECT_EQ(rules.p_dtype, PDtype::fp32);
  EXPECT_FALSE(accumulate_rules({{"scale_op", std::string("divide")}}, "path").accumulator);
}

TEST(AccumulateRules, RefuseWhatHasNoMeaning) {
  try {
    accumulate_rules({{"accumulator", std::string("fp16")}}, "/outputs/mine");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/outputs/mine"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("tensor_fp32"), std::string::npos) << error.what();
  }
  EXPECT_THROW(accumulate_rules({{"p_dtype", std::int64_t{8}}}, "path"), Error);
}

TEST(AccumulateRules, WithoutAClaimGiveFp8OnlyToFp8Operands) {
  const AccumulateRules none;
  EXPECT_EQ(none.for_scores(ElementType::float8_e4m3fn), Accumulator::tensor_fp8);
  EXPECT_EQ(none.for_scores(ElementType::bfloat16), Accumulator::tensor_fp32);
  EXPECT_EQ(none.for_query_key(), Accumulator::tensor_fp32);
  EXPECT_EQ(none.for_values(), Accumulator::tensor_fp32);
}

TEST(AccumulateRules, HoldAClaimOfBinary32Everywhere) {
  AccumulateRules fp32;
  fp32.accumulator = Accumulator::fp32;
  EXPECT_EQ(fp32.for_scores(ElementType::float8_e5m2), Accumulator::fp32);
  EXPECT_EQ(fp32.for_query_key(), Accumulator::fp32);
  EXPECT_EQ(fp32.for_values(), Accumulator::fp32);
}

TEST(AccumulateRules, KeepAClaimOfFp8FromOperandsOfTheModelDtype) {
  AccumulateRules fp8;
  fp8.accumulator = Accumulator::tensor_fp8;
  EXPECT_EQ(fp8.for_scores(ElementType::float16), Accumulator::tensor_fp32);
  EXPECT_EQ(fp8.for_values(), Accumulator::tensor_fp32);
  fp8.p_dtype = PDtype::fp8;
  EXPECT_EQ(fp8.for_values(), Accumulator::tensor_fp8);
}

TEST(SumError, IsUnitTimesTermsTimesTheLargestPartialSum) {
  EXPECT_NEAR(sum_error(Accumulator::fp32, 128, 10, -2), 0x1p-17 * 6, 1e-9);
  EXPECT_NEAR(sum_error(Accumulator::tensor_fp8, 128, 10, 0), 0x1p-6 * 5 / (1 - 0x1p-6), 1e-12);
  EXPECT_TRUE(std::isinf(sum_error(Accumulator::tensor_fp8, 8192, 1, 0)));
}

// What was measured on an H200, as multiples of 2^-24 of the sum of sizes, lies inside.
TEST(SumError, CoversWhatWasMeasured) {
  EXPECT_GT(sum_error(Accumulator::fp32, 128, 1, 0), 1.3 * 0x1p-24);
  EXPECT_GT(sum_error(Accumulator::tensor_fp32, 128, 1, 0), 1.8 * 0x1p-24);
  EXPECT_GT(sum_error(Accumulator::tensor_fp8, 128, 1, 0), 2751 * 0x1p-24);
}

}  // namespace
}  // namespace zerodiff::compare
