// reference/number_formats.h on all codes, all 16-bit inputs and all rounding boundaries, against
// the table search of tests/oracle.
#include "reference/number_formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "tests/oracle/number_formats.h"
#include "tests/reference/rounding_intervals.h"

namespace zerodiff::reference {
namespace {

using test::rounding_intervals;
using test::RoundingInterval;

float float_of(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

void expect_same_value(double expected, double got, std::uint32_t code) {
  if (std::isnan(expected)) {
    ASSERT_TRUE(std::isnan(got)) << "code " << code << " gave " << got;
  } else {
    ASSERT_EQ(std::bit_cast<std::uint64_t>(expected), std::bit_cast<std::uint64_t>(got))
        << "code " << code << ": " << expected << " expected, got " << got;
  }
}

struct Fp8Row {
  ElementType format;
  Fp8Range range;
};
void PrintTo(const Fp8Row& row, std::ostream* out) {
  *out << name_of(row.format);
}

// numerics.md section 1, copied from the page.
const Fp8Row kFp8Rows[] = {
    {ElementType::float8_e4m3fn, {3, 7, 448, 0x7E, 0x7F, false, false}},
    {ElementType::float8_e4m3fnuz, {3, 8, 240, 0x7F, 0x80, true, false}},
    {ElementType::float8_e5m2, {2, 15, 57344, 0x7B, 0x7F, false, true}},
    {ElementType::float8_e5m2fnuz, {2, 16, 57344, 0x7F, 0x80, true, false}},
};

class Fp8Format : public testing::TestWithParam<Fp8Row> {
 protected:
  ElementType format() const { return GetParam().format; }

  std::vector<Overflow> rules() const {
    std::vector<Overflow> rules{Overflow::saturate, Overflow::nan};
    if (format() == ElementType::float8_e5m2) rules.push_back(Overflow::inf);
    return rules;
  }

  void expect_encodes_as_oracle(float value) const {
    for (const Overflow rule : rules()) {
      ASSERT_EQ(int{oracle::encode_fp8(format(), value, rule)},
                int{encode_fp8(format(), value, rule)})
          << value << " (0x" << std::hex << bits_of(value) << ") with overflow " << name_of(rule);
    }
  }
};

TEST_P(Fp8Format, RangeIsTheContractsTable) {
  const Fp8Range& range = fp8_range(format());
  const Fp8Range& wanted = GetParam().range;
  EXPECT_EQ(range.mantissa_bits, wanted.mantissa_bits);
  EXPECT_EQ(range.exponent_bias, wanted.exponent_bias);
  EXPECT_EQ(range.largest_finite, wanted.largest_finite);
  EXPECT_EQ(range.largest_code, wanted.largest_code);
  EXPECT_EQ(range.nan_code, wanted.nan_code);
  EXPECT_EQ(range.fnuz, wanted.fnuz);
  EXPECT_EQ(range.has_infinity, wanted.has_infinity);
}

TEST_P(Fp8Format, DecodesEveryCode) {
  for (std::uint32_t code = 0; code < 256; ++code) {
    const double expected = oracle::decode(format(), code);
    expect_same_value(expected, decode_fp8(format(), static_cast<std::uint8_t>(code)), code);
    expect_same_value(expected, value_of(format(), code), code);
  }
}

TEST_P(Fp8Format, EveryCodeSurvivesARoundTrip) {
  const Overflow rule = GetParam().range.has_infinity ? Overflow::inf : Overflow::saturate;
  for (std::uint32_t code = 0; code < 256; ++code) {
    const float value = decode_fp8(format(), static_cast<std::uint8_t>(code));
    const int again = encode_fp8(format(), value, rule);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(decode_fp8(format(), static_cast<std::uint8_t>(again)))) << code;
    } else {
      EXPECT_EQ(again, static_cast<int>(code));
    }
  }
}

TEST_P(Fp8Format, EncodesEveryBfloat16) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    expect_encodes_as_oracle(static_cast<float>(oracle::decode(ElementType::bfloat16, bits)));
  }
}

TEST_P(Fp8Format, EncodesEveryFloat16) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    expect_encodes_as_oracle(static_cast<float>(oracle::decode(ElementType::float16, bits)));
  }
}

TEST_P(Fp8Format, RoundsToEvenAtEveryMidpointAndOneUlpBesideIt) {
  for (const RoundingInterval& interval : rounding_intervals(format())) {
    for (const std::uint32_t bits : {interval.first, interval.last}) {
      if (interval.code <= GetParam().range.largest_code) {
        const int code = encode_fp8(format(), float_of(bits), Overflow::nan);
        EXPECT_EQ(code, static_cast<int>(interval.code)) << float_of(bits);
      }
      expect_encodes_as_oracle(float_of(bits));
      expect_encodes_as_oracle(-float_of(bits));
    }
  }
}

TEST_P(Fp8Format, OverflowStartsAtTheContractsThreshold) {
  const RoundingInterval overflow = rounding_intervals(format()).back();
  const Fp8Range& range = GetParam().range;
  for (const std::uint32_t bits : {overflow.first, 0x7F7FFFFFU, test::kInfinityBits}) {
    const float value = float_of(bits);
    const int sign = range.fnuz ? 0 : 0x80;
    EXPECT_EQ(encode_fp8(format(), value, Overflow::saturate), range.largest_code);
    EXPECT_EQ(encode_fp8(format(), -value, Overflow::saturate), range.largest_code | 0x80);
    EXPECT_EQ(encode_fp8(format(), value, Overflow::nan), range.nan_code);
    EXPECT_EQ(encode_fp8(format(), -value, Overflow::nan), range.nan_code | sign);
    if (!range.has_infinity) continue;
    EXPECT_EQ(encode_fp8(format(), value, Overflow::inf), 0x7C);
    EXPECT_EQ(encode_fp8(format(), -value, Overflow::inf), 0xFC);
  }
}

TEST_P(Fp8Format, SignedZerosTinyValuesAndNans) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const int negative_zero = GetParam().range.fnuz ? 0x00 : 0x80;
  const int negative_nan = GetParam().range.fnuz ? 0x80 : 0xFF;
  for (const Overflow rule : rules()) {
    EXPECT_EQ(encode_fp8(format(), 0.0F, rule), 0);
    EXPECT_EQ(encode_fp8(format(), tiny, rule), 0);
    EXPECT_EQ(encode_fp8(format(), -0.0F, rule), negative_zero);
    EXPECT_EQ(encode_fp8(format(), -tiny, rule), negative_zero);
    for (const std::uint32_t payload : {0x7FC00000U, 0x7F800001U, 0x7FFFFFFFU}) {
      EXPECT_EQ(encode_fp8(format(), float_of(payload), rule), GetParam().range.nan_code);
      EXPECT_EQ(encode_fp8(format(), float_of(payload | 0x80000000U), rule), negative_nan);
    }
  }
}

TEST_P(Fp8Format, StepIsTheSpacingOfTheCodesBinade) {
  const std::vector<double>& grid = oracle::grid_of(format());
  const std::uint32_t mantissa_mask = (1U << GetParam().range.mantissa_bits) - 1;
  for (std::uint32_t code = 0; code <= GetParam().range.largest_code; ++code) {
    const std::uint32_t start = code & ~mantissa_mask;
    const double spacing = grid[start + 1] - grid[start];
    EXPECT_EQ(fp8_step(format(), static_cast<std::uint8_t>(code)), spacing) << code;
    if (GetParam().range.fnuz && code == 0) continue;
    EXPECT_EQ(fp8_step(format(), static_cast<std::uint8_t>(code | 0x80)), spacing) << code;
  }
}

INSTANTIATE_TEST_SUITE_P(NumberFormats, Fp8Format, testing::ValuesIn(kFp8Rows),
                         [](const auto& row) { return std::string(name_of(row.param.format)); });

class ModelDtype : public testing::TestWithParam<ElementType> {
 protected:
  std::uint16_t rounded(float value) const {
    return GetParam() == ElementType::bfloat16 ? to_bfloat16(value) : to_float16(value);
  }
  float decoded(std::uint32_t bits) const {
    const auto code = static_cast<std::uint16_t>(bits);
    return GetParam() == ElementType::bfloat16 ? from_bfloat16(code) : from_float16(code);
  }
  std::uint32_t infinity() const { return GetParam() == ElementType::bfloat16 ? 0x7F80 : 0x7C00; }
};

TEST_P(ModelDtype, DecodesEveryCode) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double expected = oracle::decode(GetParam(), bits);
    expect_same_value(expected, decoded(bits), bits);
    expect_same_value(expected, value_of(GetParam(), bits), bits);
    expect_same_value(expected, from_model_dtype(GetParam(), static_cast<std::uint16_t>(bits)),
                      bits);
  }
}

TEST_P(ModelDtype, EveryCodeSurvivesARoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bool nan = (bits & 0x7FFF) > infinity();
    if (nan) {
      EXPECT_GT(rounded(decoded(bits)) & 0x7FFF, infinity()) << bits;
    } else {
      EXPECT_EQ(rounded(decoded(bits)), bits);
    }
  }
}

// The last code is infinity's: overflow goes there.
TEST_P(ModelDtype, RoundsToEvenAtEveryMidpointAndOneUlpBesideIt) {
  for (const RoundingInterval& interval : rounding_intervals(GetParam())) {
    for (const std::uint32_t bits : {interval.first, interval.last}) {
      ASSERT_EQ(rounded(float_of(bits)), interval.code) << float_of(bits);
      ASSERT_EQ(rounded(-float_of(bits)), interval.code | 0x8000) << float_of(bits);
      ASSERT_EQ(to_model_dtype(GetParam(), float_of(bits)), interval.code);
      ASSERT_EQ(bits_of(round_to_model_dtype(GetParam(), float_of(bits))),
                bits_of(decoded(interval.code)));
    }
  }
}

TEST_P(ModelDtype, NansStayNansWithTheirSign) {
  for (const std::uint32_t payload : {0x7FC00000U, 0x7F800001U, 0x7F801000U, 0x7FFFFFFFU}) {
    const std::uint32_t positive = rounded(float_of(payload));
    const std::uint32_t negative = rounded(float_of(payload | 0x80000000U));
    const std::uint32_t quiet_bit = GetParam() == ElementType::bfloat16 ? 0x40 : 0x200;
    EXPECT_EQ(positive & infinity(), infinity()) << payload;
    EXPECT_NE(positive & quiet_bit, 0U) << payload;
    EXPECT_EQ(positive & 0x8000, 0U) << payload;
    EXPECT_EQ(negative, positive | 0x8000) << payload;
    EXPECT_TRUE(std::isnan(round_to_model_dtype(GetParam(), float_of(payload))));
  }
}

TEST_P(ModelDtype, BulkFormsEqualScalarForms) {
  std::vector<std::uint16_t> codes(0x10000);
  std::iota(codes.begin(), codes.end(), std::uint16_t{0});
  std::vector<float> values(codes.size());
  from_model_dtype(GetParam(), codes, values);
  for (const std::uint16_t code : codes) {
    ASSERT_EQ(bits_of(values[code]), bits_of(decoded(code))) << code;
  }

  std::vector<float> inputs;
  for (const RoundingInterval& interval : rounding_intervals(GetParam())) {
    for (const std::uint32_t bits : {interval.first, interval.last}) {
      inputs.push_back(float_of(bits));
      inputs.push_back(-float_of(bits));
    }
  }
  inputs.push_back(std::numeric_limits<float>::quiet_NaN());  // an odd length: a vector's tail
  std::vector<std::uint16_t> outputs(inputs.size());
  to_model_dtype(GetParam(), inputs, outputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_EQ(outputs[i], rounded(inputs[i])) << inputs[i];
  }
}

TEST_P(ModelDtype, BulkFormsTakeAnyLength) {
  for (const std::size_t length : {0, 1, 7, 8, 9, 15, 16, 17, 127, 128, 129}) {
    const std::vector<std::uint16_t> codes(length, 0x3C01);
    std::vector<float> values(length);
    std::vector<std::uint16_t> again(length);
    from_model_dtype(GetParam(), codes, values);
    to_model_dtype(GetParam(), values, again);
    EXPECT_EQ(values, std::vector<float>(length, decoded(0x3C01)));
    EXPECT_EQ(again, codes);
  }
}

INSTANTIATE_TEST_SUITE_P(NumberFormats, ModelDtype,
                         testing::Values(ElementType::bfloat16, ElementType::float16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST(NumberFormats, ValueOfOtherTypes) {
  EXPECT_EQ(value_of(ElementType::float32, bits_of(-1.5F)), -1.5);
  EXPECT_EQ(value_of(ElementType::float32, 1), std::ldexp(1.0, -149));
  EXPECT_EQ(value_of(ElementType::int32, 0xFFFFFFFFU), -1.0);
  EXPECT_EQ(value_of(ElementType::int32, 0x7FFFFFFFU), 2147483647.0);
  EXPECT_EQ(value_of(ElementType::int64, ~std::uint64_t{0}), -1.0);
}

}  // namespace
}  // namespace zerodiff::reference
