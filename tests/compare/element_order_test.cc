// The number lines: neighbours are one step apart, NaNs are those of the number formats.
#include "compare/element_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "reference/number_formats.h"
#include "tests/compare/tensor_bits.h"

namespace zerodiff::compare {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct PrintType {
  std::string operator()(const testing::TestParamInfo<ElementType>& type) const {
    return std::string(name_of(type.param));
  }
};

std::uint64_t code_count(ElementType type) {
  return element_size(type) == 1 ? 256 : 65536;
}

class NarrowElementOrder : public testing::TestWithParam<ElementType> {};

TEST_P(NarrowElementOrder, NamesTheNanCodesOfTheFormat) {
  const ElementOrder order = element_order(GetParam());
  const std::uint64_t codes = code_count(GetParam());
  for (std::uint64_t code = 0; code < codes; ++code) {
    ASSERT_EQ(order.is_nan(code), std::isnan(reference::value_of(GetParam(), code))) << code;
  }
}

// All codes that are not NaN, sorted by value with -0 below +0, are one step apart: across zero,
// into and out of the subnormals, between binades and at infinity.
TEST_P(NarrowElementOrder, PutsNeighbouringValuesOneStepApart) {
  const ElementOrder order = element_order(GetParam());
  const std::uint64_t codes = code_count(GetParam());
  std::vector<std::uint64_t> sorted;
  for (std::uint64_t code = 0; code < codes; ++code) {
    if (!std::isnan(reference::value_of(GetParam(), code))) sorted.push_back(code);
  }
  std::sort(sorted.begin(), sorted.end(), [](std::uint64_t a, std::uint64_t b) {
    const double x = reference::value_of(GetParam(), a);
    const double y = reference::value_of(GetParam(), b);
    return x != y ? x < y : std::signbit(x) && !std::signbit(y);
  });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    ASSERT_EQ(order.steps(sorted[i - 1], sorted[i]), 1U) << sorted[i - 1] << " " << sorted[i];
    ASSERT_EQ(order.steps(sorted[i], sorted[0]), i) << sorted[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Types, NarrowElementOrder,
                         testing::Values(ElementType::bfloat16, ElementType::float16,
                                         ElementType::float8_e4m3fn, ElementType::float8_e4m3fnuz,
                                         ElementType::float8_e5m2, ElementType::float8_e5m2fnuz),
                         PrintType());

TEST(Float32Order, NeighboursAreOneStepApart) {
  const ElementOrder order = element_order(ElementType::float32);
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    const auto value = std::bit_cast<float>(bits);
    ASSERT_EQ(order.is_nan(bits), std::isnan(value)) << bits << " seed 1";
    if (!std::isfinite(value) || value == 0) continue;
    const float next = std::nextafterf(value, std::numeric_limits<float>::infinity());
    if (next == 0) continue;
    ASSERT_EQ(order.steps(bits, std::bit_cast<std::uint32_t>(next)), 1U) << bits << " seed 1";
  }
}

struct DistanceCase {
  const char* name;
  ElementType type;
  std::uint64_t expected;
  std::uint64_t got;
  double abs_error;
  std::uint64_t ulp;
  bool one_nan = false;
};

void PrintTo(const DistanceCase& c, std::ostream* out) {
  *out << c.name << " " << name_of(c.type) << " " << c.expected << " " << c.got;
}

class Distance : public testing::TestWithParam<DistanceCase> {};

TEST_P(Distance, IsAsTheTableSaysBothWays) {
  const DistanceCase& c = GetParam();
  const ElementOrder order = element_order(c.type);
  for (const bool swapped : {false, true}) {
    const ElementDistance apart =
        distance(c.type, order, swapped ? c.got : c.expected, swapped ? c.expected : c.got);
    EXPECT_EQ(apart.abs_error, c.abs_error);
    EXPECT_EQ(apart.ulp, c.ulp);
    EXPECT_EQ(apart.one_nan, c.one_nan);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, Distance,
    testing::Values(
        DistanceCase{"SignedZero", ElementType::bfloat16, 0x0000, 0x8000, 0, 1},
        DistanceCase{"SignedZero16", ElementType::float16, 0x0000, 0x8000, 0, 1},
        DistanceCase{"SignedZero32", ElementType::float32, 0, 0x80000000, 0, 1},
        DistanceCase{"SignedZeroE4m3", ElementType::float8_e4m3fn, 0x00, 0x80, 0, 1},
        DistanceCase{"AcrossZero", ElementType::bfloat16, 0x0001, 0x8001, 0x1p-132, 3},
        DistanceCase{"AcrossZeroFnuz", ElementType::float8_e4m3fnuz, 0x01, 0x81, 0x1p-9, 2},
        DistanceCase{"ZeroToNegativeFnuz", ElementType::float8_e4m3fnuz, 0x00, 0x81, 0x1p-10, 1},
        DistanceCase{"OneUlp", ElementType::bfloat16, 0x3F80, 0x3F81, 0x1p-7, 1},
        DistanceCase{"BinadeEdge", ElementType::float16, 0x3BFF, 0x3C00, 0x1p-11, 1},
        DistanceCase{"ToInfinity", ElementType::float16, 0x7BFF, 0x7C00, kInfinity, 1},
        DistanceCase{"ToInfinityE5m2", ElementType::float8_e5m2, 0x7B, 0x7C, kInfinity, 1},
        DistanceCase{"BothInfinities", ElementType::bfloat16, 0x7F80, 0xFF80, kInfinity, 0xFF01},
        DistanceCase{"OneNan", ElementType::bfloat16, 0x3F80, 0x7FC0, kInfinity, UINT64_MAX, true},
        DistanceCase{"OneNanFnuz", ElementType::float8_e5m2fnuz, 0x00, 0x80, kInfinity, UINT64_MAX,
                     true},
        DistanceCase{"InfinityAndNan", ElementType::float32, 0x7F800000, 0x7F800001, kInfinity,
                     UINT64_MAX, true},
        DistanceCase{"TwoNans", ElementType::bfloat16, 0x7FC0, 0x7FC1, 0, 1},
        DistanceCase{"LargestFloats", ElementType::float32, 0x7F7FFFFF, 0xFF7FFFFF, 0x1.fffffep128,
                     0xFEFFFFFF},
        DistanceCase{"Int32", ElementType::int32, 0xFFFFFFFF, 1, 2, 2},
        DistanceCase{"Int32Extremes", ElementType::int32, 0x80000000, 0x7FFFFFFF, 4294967295.0,
                     4294967295U},
        DistanceCase{"Int64", ElementType::int64, 5, 12, 7, 7},
        DistanceCase{"Int64Extremes", ElementType::int64, std::uint64_t{1} << 63, INT64_MAX, 0x1p64,
                     UINT64_MAX}),
    [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace zerodiff::compare
