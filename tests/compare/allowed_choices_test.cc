// What a contract allows, and what a path claims beside it.
#include "compare/allowed_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/contract_claims.h"
#include "fixtures/error.h"

namespace zerodiff::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LayerConfig fp8_config(ElementType format = ElementType::float8_e4m3fn) {
  LayerConfig config;
  config.kv_cache_dtype = format;
  config.scale_op = ScaleOp::divide;
  return config;
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(one_line(error.what()), error.what());
    return error.what();
  }
  return "no error";
}

// numerics.md, section 14: what needs no declaration, and the call's own values of the rest.
TEST(AllowedChoicesTest, BeginWithTheContractAndWhatNeedsNoDeclaration) {
  const AllowedChoices allowed(fp8_config());
  EXPECT_THAT(allowed.values("rope_contraction"), ElementsAre("fma_cos", "separate", "fma_sin"));
  EXPECT_THAT(allowed.values("rsqrt"), ElementsAre("0", "1", "2"));
  EXPECT_THAT(allowed.values("sumsq_order"), ElementsAre("lane_sum128", "any"));
  EXPECT_THAT(allowed.values("score_scale"), ElementsAre("none", "sm_scale_log2e"));
  EXPECT_THAT(allowed.values("topk_ties"), ElementsAre("lowest_id", "any"));
  EXPECT_THAT(allowed.values("topk_order"), ElementsAre("score", "any"));
  EXPECT_EQ(allowed.values("accumulate").size(), 4U);
  EXPECT_THAT(allowed.values("norm_materialised"), ElementsAre("false"));
  EXPECT_THAT(allowed.values("quantize_from"), ElementsAre("model_dtype"));
  EXPECT_THAT(allowed.values("scale_op"), ElementsAre("divide"));
  EXPECT_THAT(allowed.values("overflow"), ElementsAre("saturate"));
  EXPECT_THAT(allowed.values("index_q_from"), ElementsAre("fp32"));
  EXPECT_THAT(allowed.values("p_dtype"), ElementsAre("model_dtype"));
}

TEST(AllowedChoicesTest, AContractAloneHasOneValueEach) {
  const AllowedChoices allowed = AllowedChoices::contract_only(fp8_config());
  for (const ChoiceId& choice : choice_ids()) {
    EXPECT_EQ(allowed.values(choice.id).size(), 1U) << choice.id;
  }
  EXPECT_EQ(allowed.values("scale_op").front(), "divide");
}

TEST(AllowedChoicesTest, AllowAddsAndReplaceSetsThem) {
  AllowedChoices allowed(fp8_config());
  allowed.allow("quantize_from", "fp32", "test");
  allowed.allow("quantize_from", "fp32", "test");
  EXPECT_THAT(allowed.values("quantize_from"), ElementsAre("model_dtype", "fp32"));
  EXPECT_TRUE(allowed.allows("quantize_from", "fp32"));
  EXPECT_FALSE(allowed.allows("scale_op", "multiply_reciprocal"));
  allowed.replace("rope_contraction", {"separate", "separate"}, "test");
  EXPECT_THAT(allowed.values("rope_contraction"), ElementsAre("separate"));
}

TEST(AllowedChoicesTest, OnlyE5m2OverflowsToInfinity) {
  AllowedChoices allowed(fp8_config());
  allowed.allow("overflow", "inf", "test");
  EXPECT_THAT(allowed.values("overflow"), ElementsAre("saturate"));
  allowed.replace("overflow", {"inf"}, "test");
  EXPECT_THAT(allowed.values("overflow"), ElementsAre("saturate"));
  AllowedChoices e5m2(fp8_config(ElementType::float8_e5m2));
  e5m2.allow("overflow", "inf", "test");
  EXPECT_THAT(e5m2.values("overflow"), ElementsAre("saturate", "inf"));
}

TEST(AllowedChoicesTest, UnknownNamesAreOneLineErrors) {
  AllowedChoices allowed(fp8_config());
  EXPECT_THAT(message_of([&] { allowed.allow("rounding", "up", "--allow"); }),
              HasSubstr("--allow: unknown choice 'rounding', wanted one of rope_contraction"));
  EXPECT_THAT(message_of([&] { allowed.allow("scale_op", "up\n", "--allow"); }),
              HasSubstr("scale_op has no value 'up?', wanted one of multiply_reciprocal, divide"));
  EXPECT_THAT(message_of([&] { allowed.replace("scale_op", {}, "f"); }),
              HasSubstr("f: no value for scale_op"));
  EXPECT_THAT(message_of([&] { static_cast<void>(allowed.values("nothing")); }),
              HasSubstr("unknown choice 'nothing'"));
}

ClaimReport claim(const std::string& name, const AttributeValue& value,
                  const AllowedChoices& allowed) {
  const auto reports = contract_claims(fp8_config(), allowed, {{name, value}}, "path", true);
  EXPECT_EQ(reports.size(), 1U);
  return reports.at(0);
}

struct ClaimCase {
  std::string name;
  AttributeValue value;
  std::string contract;
  bool contradicts;
  bool allowed;
};

class Claim : public testing::TestWithParam<ClaimCase> {};

TEST_P(Claim, IsHeldAgainstTheContract) {
  AllowedChoices allowed(fp8_config());
  allowed.allow("overflow", "nan", "test");
  const ClaimReport report = claim(GetParam().name, GetParam().value, allowed);
  EXPECT_EQ(report.contract, GetParam().contract);
  EXPECT_EQ(report.contradicts, GetParam().contradicts);
  EXPECT_EQ(report.allowed, GetParam().allowed);
  EXPECT_TRUE(report.gates);
  EXPECT_EQ(report.path, "path");
}

INSTANTIATE_TEST_SUITE_P(
    Claims, Claim,
    testing::Values(ClaimCase{"scale_op", "divide", "divide", false, true},
                    ClaimCase{"quantize_from", "fp32", "model_dtype", true, false},
                    ClaimCase{"overflow", "nan", "saturate", true, true},
                    ClaimCase{"rope_contraction", "separate", "fma_cos", true, true},
                    ClaimCase{"rope_contraction", "fused", "fma_cos", true, false},
                    ClaimCase{"rsqrt", std::int64_t{2}, "0", true, true},
                    ClaimCase{"rsqrt", std::int64_t{3}, "0", true, false},
                    ClaimCase{"norm_materialised", true, "false", true, false},
                    ClaimCase{"kv_cache_dtype", "fp8_e4m3fn", "fp8_e4m3fn", false, true},
                    ClaimCase{"kv_cache_dtype", "fp8_e5m2", "fp8_e4m3fn", true, false},
                    ClaimCase{"topk", std::int64_t{16}, "16", false, true},
                    ClaimCase{"topk", std::int64_t{8}, "16", true, false},
                    ClaimCase{"accumulator", "tensor_fp8",
                              "in_order or fp32 or tensor_fp32 or tensor_fp8", false, true},
                    ClaimCase{"accumulator", "double",
                              "in_order or fp32 or tensor_fp32 or tensor_fp8", true, false},
                    ClaimCase{"compiler", "nvcc 13", "", false, true}));

}  // namespace
}  // namespace zerodiff::compare
