// The oracle's own number formats, and the generator's rounding, against facts that can be checked
// by hand and against a second way of rounding. What judges others must be judged first.
#include "tests/oracle/number_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "fixtures/generator_values.h"

namespace zerodiff::oracle {
namespace {

struct CodeRow {
  ElementType format;
  std::uint32_t code;
  double value;
};

const CodeRow kCodes[] = {
    {ElementType::bfloat16, 0x3F80, 1},
    {ElementType::bfloat16, 0xC049, -3.140625},
    {ElementType::bfloat16, 0x0001, 0x1p-133},
    {ElementType::bfloat16, 0x0080, 0x1p-126},
    {ElementType::bfloat16, 0x7F7F, 0x1.FEp127},
    {ElementType::float16, 0x3C00, 1},
    {ElementType::float16, 0x7BFF, 65504},
    {ElementType::float16, 0x0001, 0x1p-24},
    {ElementType::float16, 0x8400, -0x1p-14},
    {ElementType::float8_e4m3fn, 0x38, 1},
    {ElementType::float8_e4m3fn, 0x7E, 448},
    {ElementType::float8_e4m3fn, 0x01, 0x1p-9},
    {ElementType::float8_e4m3fn, 0x08, 0x1p-6},
    {ElementType::float8_e4m3fn, 0xFE, -448},
    {ElementType::float8_e4m3fnuz, 0x40, 1},
    {ElementType::float8_e4m3fnuz, 0x7F, 240},
    {ElementType::float8_e4m3fnuz, 0x01, 0x1p-10},
    {ElementType::float8_e4m3fnuz, 0xFF, -240},
    {ElementType::float8_e5m2, 0x3C, 1},
    {ElementType::float8_e5m2, 0x7B, 57344},
    {ElementType::float8_e5m2, 0x01, 0x1p-16},
    {ElementType::float8_e5m2fnuz, 0x40, 1},
    {ElementType::float8_e5m2fnuz, 0x7F, 57344},
    {ElementType::float8_e5m2fnuz, 0x01, 0x1p-17},
};

TEST(OracleFormats, KnownCodes) {
  for (const CodeRow& row : kCodes) {
    EXPECT_EQ(decode(row.format, row.code), row.value) << name_of(row.format) << row.code;
  }
}

TEST(OracleFormats, SpecialCodes) {
  for (const std::uint32_t code : {0x7FU, 0xFFU}) {
    EXPECT_TRUE(std::isnan(decode(ElementType::float8_e4m3fn, code)));
    EXPECT_FALSE(std::isnan(decode(ElementType::float8_e4m3fnuz, code)));
    EXPECT_TRUE(std::isnan(decode(ElementType::float8_e5m2, code)));
    EXPECT_FALSE(std::isnan(decode(ElementType::float8_e5m2fnuz, code)));
  }
  EXPECT_TRUE(std::isnan(decode(ElementType::float8_e4m3fnuz, 0x80)));
  EXPECT_TRUE(std::isnan(decode(ElementType::float8_e5m2fnuz, 0x80)));
  EXPECT_TRUE(std::signbit(decode(ElementType::float8_e4m3fn, 0x80)));
  EXPECT_EQ(decode(ElementType::float8_e5m2, 0xFC), -INFINITY);
  EXPECT_EQ(decode(ElementType::float16, 0x7C00), INFINITY);
  EXPECT_TRUE(std::isnan(decode(ElementType::bfloat16, 0xFF81)));
}

struct CastRow {
  float value;
  int code;
  ElementType format;
  Overflow overflow;
};

// Of numerics.md section 1, and what follows from its largest finite values.
const CastRow kCasts[] = {
    {464.0F, 0x7E, ElementType::float8_e4m3fn, Overflow::nan},
    {464.1F, 0x7F, ElementType::float8_e4m3fn, Overflow::nan},
    {-464.1F, 0xFF, ElementType::float8_e4m3fn, Overflow::nan},
    {464.1F, 0x7E, ElementType::float8_e4m3fn, Overflow::saturate},
    {-INFINITY, 0xFE, ElementType::float8_e4m3fn, Overflow::saturate},
    {17.0F, 0x58, ElementType::float8_e4m3fn, Overflow::saturate},
    {19.0F, 0x5A, ElementType::float8_e4m3fn, Overflow::saturate},
    {-0x1p-10F, 0x80, ElementType::float8_e4m3fn, Overflow::saturate},
    {0x1.8p-9F, 0x02, ElementType::float8_e4m3fn, Overflow::saturate},
    {247.9F, 0x7F, ElementType::float8_e4m3fnuz, Overflow::nan},
    {248.0F, 0x80, ElementType::float8_e4m3fnuz, Overflow::nan},
    {-248.0F, 0xFF, ElementType::float8_e4m3fnuz, Overflow::saturate},
    {-0.0F, 0x00, ElementType::float8_e4m3fnuz, Overflow::saturate},
    {-0x1p-11F, 0x00, ElementType::float8_e4m3fnuz, Overflow::nan},
    {61439.0F, 0x7B, ElementType::float8_e5m2, Overflow::inf},
    {61440.0F, 0x7C, ElementType::float8_e5m2, Overflow::inf},
    {-61440.0F, 0xFF, ElementType::float8_e5m2, Overflow::nan},
    {61440.0F, 0x7B, ElementType::float8_e5m2, Overflow::saturate},
    {-INFINITY, 0xFC, ElementType::float8_e5m2, Overflow::inf},
    {61440.0F, 0x80, ElementType::float8_e5m2fnuz, Overflow::nan},
    {-61440.0F, 0xFF, ElementType::float8_e5m2fnuz, Overflow::saturate},
};

TEST(OracleFormats, KnownCasts) {
  for (const CastRow& row : kCasts) {
    EXPECT_EQ(int{encode_fp8(row.format, row.value, row.overflow)}, row.code)
        << name_of(row.format) << " " << row.value << " " << name_of(row.overflow);
  }
}

// Rounding by arithmetic instead of by search: to a multiple of the binade's step, in double.
double rounded_by_steps(ElementType format, double value) {
  const FormatFacts facts = facts_of(format);
  if (value == 0) return value;
  const int exponent = std::max(std::ilogb(value), 1 - facts.bias);
  const double step = std::ldexp(1, exponent - facts.mantissa_bits);
  return std::nearbyint(value / step) * step;
}

class OracleFormat : public testing::TestWithParam<ElementType> {};

// All float16 and bfloat16 values are in range of the search: subnormals, ties and all binades.
TEST_P(OracleFormat, SearchRoundsAsArithmeticDoes) {
  const std::vector<double>& grid = grid_of(GetParam());
  for (const ElementType input : {ElementType::float16, ElementType::bfloat16}) {
    for (std::uint32_t bits = 0; bits < facts_of(input).largest_code + 1; ++bits) {
      const double value = decode(input, bits);
      const double rounded = rounded_by_steps(GetParam(), value);
      const double found = grid[nearest_code(GetParam(), value)];
      ASSERT_EQ(found, std::min(rounded, grid.back())) << value;
    }
  }
}

TEST_P(OracleFormat, GridAscends) {
  const std::vector<double>& grid = grid_of(GetParam());
  EXPECT_EQ(grid.front(), 0);
  for (std::size_t i = 1; i < grid.size(); ++i) ASSERT_LT(grid[i - 1], grid[i]);
}

INSTANTIATE_TEST_SUITE_P(All, OracleFormat,
                         testing::Values(ElementType::bfloat16, ElementType::float16,
                                         ElementType::float8_e4m3fn, ElementType::float8_e4m3fnuz,
                                         ElementType::float8_e5m2, ElementType::float8_e5m2fnuz),
                         [](const auto& format) { return std::string(name_of(format.param)); });

// The generator rounds doubles by itself, since fixtures may not use reference/.
TEST(GeneratorValues, ModelDtypeBitsRoundsAsTheOracle) {
  for (const ElementType format : {ElementType::bfloat16, ElementType::float16}) {
    const std::vector<double>& grid = grid_of(format);
    for (std::uint32_t code = 0; code + 1 < grid.size(); ++code) {
      const double middle = (grid[code] + grid[code + 1]) / 2;
      const double below = std::nextafter(middle, 0);
      const double above = std::nextafter(middle, INFINITY);
      const std::uint32_t even = code + code % 2;
      ASSERT_EQ(generator::model_dtype_bits(format, grid[code]), code);
      ASSERT_EQ(generator::model_dtype_bits(format, below), code);
      ASSERT_EQ(generator::model_dtype_bits(format, middle), even);
      ASSERT_EQ(generator::model_dtype_bits(format, above), code + 1);
      ASSERT_EQ(generator::model_dtype_bits(format, -above), (code + 1) | 0x8000);
    }
  }
}

}  // namespace
}  // namespace zerodiff::oracle
