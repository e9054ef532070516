// --contract and --allow: presets, contract files and what is wrong with them.
#include "tools/contract_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fixtures/error.h"
#include "tests/fixtures/capture_files.h"

namespace zerodiff::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LayerConfig config() {
  LayerConfig config;
  config.kv_cache_dtype = ElementType::float8_e4m3fn;
  return config;
}

class ContractFile : public testing::Test {
 protected:
  std::string file(const std::string& text) const {
    const auto path = folder_ / "contract.json";
    std::ofstream(path) << text;
    return path.string();
  }

  std::string error_of(const std::string& text) const {
    try {
      parse_contract_options(file(text), {});
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::kInfrastructure);
      EXPECT_EQ(one_line(error.what()), error.what());
      EXPECT_THAT(error.what(), HasSubstr("contract.json"));
      return error.what();
    }
    return "no error";
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(ContractFile, ReplacesWhatIsAllowed) {
  const auto options = parse_contract_options(file(R"({
    "zerodiff_contract": 1, "name": "mine", "source": "its manual",
    "choices": {"rope_contraction": "separate", "rsqrt": [0, 1], "norm_materialised": true,
                "quantize_from": ["fp32", "model_dtype"]}})"),
                                              {});
  const compare::AllowedChoices allowed = options.allowed(config());
  EXPECT_THAT(allowed.values("rope_contraction"), ElementsAre("separate"));
  EXPECT_THAT(allowed.values("rsqrt"), ElementsAre("0", "1"));
  EXPECT_THAT(allowed.values("norm_materialised"), ElementsAre("true"));
  EXPECT_THAT(allowed.values("quantize_from"), ElementsAre("fp32", "model_dtype"));
  // What the file does not name is the call's contract, and nothing else.
  EXPECT_THAT(allowed.values("sumsq_order"), ElementsAre("lane_sum128"));
  EXPECT_THAT(allowed.values("scale_op"), ElementsAre("multiply_reciprocal"));
}

TEST_F(ContractFile, AllowComesOnTop) {
  const std::vector<std::string> allow{"scale_op=divide", "topk_order=any"};
  const auto options =
      parse_contract_options(file(R"({"zerodiff_contract": 1, "choices": {}})"), allow);
  const compare::AllowedChoices allowed = options.allowed(config());
  EXPECT_THAT(allowed.values("scale_op"), ElementsAre("multiply_reciprocal", "divide"));
  EXPECT_THAT(allowed.values("topk_order"), ElementsAre("score", "any"));
  EXPECT_THAT(allowed.values("topk_ties"), ElementsAre("lowest_id"));
  EXPECT_THAT(options.as_options(),
              HasSubstr("contract.json --allow scale_op=divide --allow topk_order=any"));
}

TEST_F(ContractFile, WithAMistakeIsRefused) {
  EXPECT_THAT(error_of("{"), HasSubstr("wanted JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("found array, wanted an object"));
  EXPECT_THAT(error_of("{}"), HasSubstr("zerodiff_contract: found nothing, wanted 1"));
  EXPECT_THAT(error_of(R"({"zerodiff_contract": 2, "choices": {}})"), HasSubstr("found 2"));
  EXPECT_THAT(error_of(R"({"zerodiff_contract": 1})"), HasSubstr("choices: found nothing"));
  EXPECT_THAT(error_of(R"({"zerodiff_contract": 1, "choices": []})"), HasSubstr("found array"));
  EXPECT_THAT(error_of(R"({"zerodiff_contract": 1, "choices": {}, "extra": 1})"),
              HasSubstr("found extra"));
  EXPECT_THAT(error_of(R"({"zerodiff_contract": 1, "choices": {}, "name": 1})"),
              HasSubstr("name: found number, wanted a text"));
  const auto choices = [&](const std::string& text) {
    return error_of(R"({"zerodiff_contract": 1, "choices": {)" + text + "}}");
  };
  EXPECT_THAT(choices(R"("rounding": "up")"), HasSubstr("unknown choice 'rounding'"));
  EXPECT_THAT(choices(R"("scale_op": "times")"), HasSubstr("scale_op has no value 'times'"));
  EXPECT_THAT(choices(R"("scale_op": [])"), HasSubstr("choices/scale_op: values: found none"));
  EXPECT_THAT(choices(R"("scale_op": {})"), HasSubstr("wanted a text, an integer or a boolean"));
  EXPECT_THAT(choices(R"("rsqrt": 1.5)"), HasSubstr("found 1.5"));
  EXPECT_THAT(choices(R"("rsqrt": 1, "rsqrt": 2)"), HasSubstr("key 'rsqrt' twice"));
}

TEST(ContractPreset, EachIsReadAndAllowsWhatItsKernelsDo) {
  std::vector<std::string> names;
  for (const Contract& preset : contract_presets()) {
    names.push_back(preset.name);
    const auto options = parse_contract_options(preset.name, {});
    EXPECT_TRUE(options.allowed(config()).allows("rsqrt", "2")) << preset.name;
    EXPECT_EQ(options.as_options(), "--contract " + preset.name);
  }
  EXPECT_THAT(names, ElementsAre("aiter", "atom", "sglang", "torch", "vllm"));
  const auto first = [](const char* preset, const char* id) {
    return parse_contract_options(preset, {}).allowed(config()).values(id).front();
  };
  EXPECT_EQ(first("atom", "quantize_from"), "fp32");
  EXPECT_EQ(first("aiter", "quantize_from"), "model_dtype");
  EXPECT_EQ(first("torch", "rope_contraction"), "separate");
  EXPECT_EQ(first("vllm", "scale_op"), "divide");
  EXPECT_EQ(first("sglang", "overflow"), "nan");
}

TEST(ContractOptionsTest, WithoutOptionsItIsTheCallsContract) {
  const ContractOptions none = parse_contract_options("", {});
  EXPECT_EQ(none.as_options(), "");
  EXPECT_EQ(none.allowed(config()).values("rope_contraction").size(), 3U);
}

}  // namespace
}  // namespace zerodiff::tools
