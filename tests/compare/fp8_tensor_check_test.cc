// The error bound of the fp8 contract at its edge.
#include "compare/fp8_tensor_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

constexpr ElementType kE4m3 = ElementType::float8_e4m3fn;

Fp8TensorSpec spec(ScaleOp op) {
  Fp8TensorSpec result;
  result.format = kE4m3;
  result.contract.scale_op = op;
  return result;
}

const Fp8Clause& error_bound(const Fp8TensorReport& report) {
  return report.clauses.at(2);
}

// x * RN(1/scale) rounds to the middle of codes 0x24 and 0x25 while x / scale lies above it by more
// than the bound allows: the contract's own code is past the bound.
TEST(Fp8ErrorBound, IsNotHeldAgainstTheContractsOwnCode) {
  const Fp8Element element{0x24, 0x1.7ep-6F, 0x1.e8f5cp-4F, 0, 0, 0};
  const double error = std::abs(static_cast<double>(reference::decode_fp8(kE4m3, 0x24)) *
                                    static_cast<double>(element.scale) -
                                static_cast<double>(element.input));
  const double half_step =
      0.5 * reference::fp8_step(kE4m3, 0x24) * static_cast<double>(element.scale);
  ASSERT_GT(error, half_step * (1 + 0x1p-20));

  Fp8TensorCheck reciprocal(spec(ScaleOp::multiply_reciprocal));
  reciprocal.add(element);
  const Fp8TensorReport found = reciprocal.report();
  EXPECT_TRUE(found.conforms);
  EXPECT_EQ(error_bound(found).checked, 1);
  EXPECT_EQ(error_bound(found).violations, 0);
  EXPECT_THAT(error_bound(found).detail, testing::HasSubstr("1 codes of the contract itself"));
  EXPECT_EQ(found.largest_error_steps, error / (2 * half_step));

  Fp8TensorCheck division(spec(ScaleOp::divide));
  division.add(element);
  EXPECT_EQ(error_bound(division.report()).violations, 1);
}

// Values one float to either side of the middle between 0x38 (1.0) and 0x39 (1.125).
TEST(Fp8ErrorBound, AllowsHalfAStepAndNoMore) {
  const float middle = 1.0625F;
  const float slack = 0x1p-20F;
  const auto violations = [&](std::uint8_t code, float input) {
    Fp8TensorCheck check(spec(ScaleOp::divide));
    check.add({code, input, 1.0F, 0, 0, 0});
    return error_bound(check.report()).violations;
  };
  EXPECT_EQ(violations(0x38, middle), 0);
  EXPECT_EQ(violations(0x39, middle),
            0);  // the contract ties to even, but the error is half a step
  EXPECT_EQ(violations(0x38, middle + 0.0625F * slack), 0);
  EXPECT_EQ(violations(0x38, middle + 0.0625F * 4 * slack), 1);
  EXPECT_EQ(violations(0x39, middle - 0.0625F * 4 * slack), 1);
  EXPECT_EQ(violations(0x3A, middle), 1);
}

struct CodeCase {
  const char* name;
  ElementType format;
  std::uint8_t code;
  std::int64_t zero;
  std::int64_t subnormal;
  std::int64_t top_octave;
  std::int64_t nan;
};

void PrintTo(const CodeCase& c, std::ostream* out) {
  *out << c.name;
}

class CodeCounts : public testing::TestWithParam<CodeCase> {};

TEST_P(CodeCounts, NameTheKindOfACode) {
  Fp8TensorSpec wanted = spec(ScaleOp::divide);
  wanted.format = GetParam().format;
  Fp8TensorCheck check(wanted);
  check.add({GetParam().code, 1.0F, 1.0F, 0, 0, 0});
  Fp8TensorCheck joined(wanted);
  joined.append(check);
  const Fp8TensorReport report = joined.report();
  EXPECT_EQ(report.written, 1);
  EXPECT_EQ(report.zero_codes, GetParam().zero);
  EXPECT_EQ(report.subnormal_codes, GetParam().subnormal);
  EXPECT_EQ(report.top_octave_codes, GetParam().top_octave);
  EXPECT_EQ(report.nan_codes, GetParam().nan);
}

INSTANTIATE_TEST_SUITE_P(
    Table, CodeCounts,
    testing::Values(CodeCase{"E4m3Zero", kE4m3, 0x00, 1, 0, 0, 0},
                    CodeCase{"E4m3MinusZero", kE4m3, 0x80, 1, 0, 0, 0},
                    CodeCase{"E4m3LeastSubnormal", kE4m3, 0x01, 0, 1, 0, 0},
                    CodeCase{"E4m3LargestSubnormal", kE4m3, 0x87, 0, 1, 0, 0},
                    CodeCase{"E4m3LeastNormal", kE4m3, 0x08, 0, 0, 0, 0},
                    CodeCase{"E4m3BelowTopOctave", kE4m3, 0x77, 0, 0, 0, 0},
                    CodeCase{"E4m3TopOctave", kE4m3, 0xF8, 0, 0, 1, 0},
                    CodeCase{"E4m3Largest", kE4m3, 0x7E, 0, 0, 1, 0},
                    CodeCase{"E4m3Nan", kE4m3, 0xFF, 0, 0, 0, 1},
                    CodeCase{"FnuzNan", ElementType::float8_e4m3fnuz, 0x80, 0, 0, 0, 1},
                    CodeCase{"FnuzLargest", ElementType::float8_e4m3fnuz, 0x7F, 0, 0, 1, 0},
                    CodeCase{"E5m2Subnormal", ElementType::float8_e5m2, 0x03, 0, 1, 0, 0},
                    CodeCase{"E5m2Largest", ElementType::float8_e5m2, 0x7B, 0, 0, 1, 0},
                    CodeCase{"E5m2Infinity", ElementType::float8_e5m2, 0x7C, 0, 0, 0, 0},
                    CodeCase{"E5m2Nan", ElementType::float8_e5m2, 0x7D, 0, 0, 0, 1},
                    CodeCase{"E5m2fnuzTop", ElementType::float8_e5m2fnuz, 0x7C, 0, 0, 1, 0}),
    [](const auto& c) { return c.param.name; });

TEST(NegativeUnderflow, CountsSignedInputsThatTheContractMakesZero) {
  Fp8TensorCheck check(spec(ScaleOp::divide));
  for (const float input : {-0.0F, -1e-6F, -0x1p-10F, -0x1.8p-10F, 0.0F, 1e-6F}) {
    check.add({0, input, 1.0F, 0, 0, 0});
  }
  EXPECT_EQ(check.report().negative_underflows, 3);
}

}  // namespace
}  // namespace zerodiff::compare
