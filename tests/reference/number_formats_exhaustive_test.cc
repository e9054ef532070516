// Every binary32 bit pattern through every conversion to 8 and 16 bits.
#include <gtest/gtest.h>

#include <bit>
#include <ostream>
#include <string>

#include "reference/number_formats.h"
#include "tests/reference/rounding_intervals.h"

namespace zerodiff::reference {
namespace {

struct Row {
  ElementType format;
  std::uint32_t negative_zero;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << name_of(row.format);
}

class EveryBinary32 : public testing::TestWithParam<Row> {
 protected:
  std::uint32_t convert(std::uint32_t bits) const {
    const auto value = std::bit_cast<float>(bits);
    const ElementType format = GetParam().format;
    if (is_fp8(format)) return encode_fp8(format, value, Overflow::saturate);
    return to_model_dtype(format, value);
  }

  // Counts the bit patterns of an interval, of one sign, that do not become `wanted`.
  std::uint64_t strays(const test::RoundingInterval& interval, std::uint32_t sign,
                       std::uint32_t wanted) const {
    std::uint64_t count = 0;
    for (std::uint64_t bits = interval.first; bits <= interval.last; ++bits) {
      if (convert(sign | static_cast<std::uint32_t>(bits)) != wanted) ++count;
    }
    return count;
  }
};

TEST_P(EveryBinary32, RoundsToTheNearestCode) {
  const ElementType format = GetParam().format;
  const std::uint32_t sign = is_fp8(format) ? 0x80 : 0x8000;
  const std::uint32_t largest = oracle::facts_of(format).largest_code;
  std::uint64_t patterns = 0;
  for (const test::RoundingInterval& interval : test::rounding_intervals(format)) {
    const bool saturates = is_fp8(format) && interval.code > largest;
    const std::uint32_t code = saturates ? largest : interval.code;
    const std::uint32_t negative = code == 0 ? GetParam().negative_zero : sign | code;
    ASSERT_EQ(strays(interval, 0, code), 0U) << "code " << code;
    ASSERT_EQ(strays(interval, 0x80000000U, negative), 0U) << "code " << negative;
    patterns += std::uint64_t{interval.last} - interval.first + 1;
  }
  EXPECT_EQ(patterns, std::uint64_t{test::kInfinityBits} + 1);
}

TEST_P(EveryBinary32, NansStayNans) {
  const ElementType format = GetParam().format;
  for (std::uint32_t bits = test::kInfinityBits + 1; bits < 0x80000000U; ++bits) {
    const double positive = value_of(format, convert(bits));
    const double negative = value_of(format, convert(bits | 0x80000000U));
    ASSERT_TRUE(positive != positive && negative != negative) << std::hex << bits;
  }
}

INSTANTIATE_TEST_SUITE_P(
    NumberFormats, EveryBinary32,
    testing::Values(Row{ElementType::bfloat16, 0x8000}, Row{ElementType::float16, 0x8000},
                    Row{ElementType::float8_e4m3fn, 0x80}, Row{ElementType::float8_e4m3fnuz, 0x00},
                    Row{ElementType::float8_e5m2, 0x80}, Row{ElementType::float8_e5m2fnuz, 0x00}),
    [](const auto& row) { return std::string(name_of(row.param.format)); });

}  // namespace
}  // namespace zerodiff::reference
