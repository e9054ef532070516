// Tallies: what counts, which differences are kept, regions, and independence of threads.
#include "compare/exact_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "tests/compare/tensor_bits.h"

namespace zerodiff::compare {
namespace {

using testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::uint64_t kOne = 0x3F80;  // 1.0 in bfloat16
constexpr std::uint64_t kNan = 0x7FC0;

std::vector<std::int64_t> indices(const std::vector<ElementDifference>& differences) {
  std::vector<std::int64_t> result;
  result.reserve(differences.size());
  for (const ElementDifference& difference : differences) result.push_back(difference.flat_index);
  return result;
}

Tensor ones(std::int64_t elements) {
  return tensor_of(ElementType::bfloat16,
                   std::vector<std::uint64_t>(static_cast<std::size_t>(elements), kOne));
}

void expect_same(const Tally& a, const Tally& b) {
  EXPECT_EQ(a.elements, b.elements);
  EXPECT_EQ(a.mismatches, b.mismatches);
  EXPECT_EQ(a.nan_mismatches, b.nan_mismatches);
  EXPECT_EQ(a.max_abs_error, b.max_abs_error);
  EXPECT_EQ(a.max_ulp, b.max_ulp);
  EXPECT_EQ(indices(a.first), indices(b.first));
  ASSERT_EQ(a.worst.has_value(), b.worst.has_value());
  if (!a.worst) return;
  EXPECT_EQ(a.worst->flat_index, b.worst->flat_index);
}

TEST(CompareAll, EqualTensorsHaveNoMismatch) {
  for (const ElementType type : kAllTypes) {
    for (const std::int64_t elements : {0, 1, 15, 16, 17, 127, 128, 129, 5000}) {
      Tensor a = Tensor::allocate(type, {elements});
      std::mt19937_64 random(1);
      for (std::int64_t i = 0; i < elements; ++i) set_bits(a, i, random());
      const Tally tally = compare_all(a, Tensor(a), NanRule::bits);
      EXPECT_EQ(tally.elements, elements);
      EXPECT_EQ(tally.mismatches, 0);
      EXPECT_EQ(tally.max_abs_error, 0);
      EXPECT_EQ(tally.max_ulp, 0U);
      EXPECT_TRUE(tally.first.empty());
      EXPECT_FALSE(tally.worst.has_value());
    }
  }
}

TEST(CompareAll, FindsOneDifferenceWhereverItStands) {
  for (const std::int64_t elements : {1, 15, 16, 17, 31, 32, 33, 2047, 2048, 2049, 9000}) {
    const Tensor a = ones(elements);
    for (const std::int64_t at : {std::int64_t{0}, elements / 2, elements - 1}) {
      Tensor b = a;
      set_bits(b, at, kOne + 2);
      const Tally tally = compare_all(a, b, NanRule::any_nan);
      ASSERT_EQ(tally.mismatches, 1) << elements << " " << at;
      ASSERT_THAT(indices(tally.first), ElementsAre(at));
      EXPECT_EQ(tally.worst->flat_index, at);
      EXPECT_EQ(tally.max_ulp, 2U);
      EXPECT_EQ(tally.max_abs_error, 0x1p-6);
    }
  }
}

TEST(CompareAll, RecordsBothSides) {
  Tensor b = ones(3);
  set_bits(b, 2, 0xC000);
  const Tally tally = compare_all(ones(3), b, NanRule::any_nan);
  const ElementDifference& difference = tally.first.at(0);
  EXPECT_EQ(difference.flat_index, 2);
  EXPECT_EQ(difference.expected_bits, kOne);
  EXPECT_EQ(difference.got_bits, 0xC000U);
  EXPECT_EQ(difference.expected, 1.0);
  EXPECT_EQ(difference.got, -2.0);
  EXPECT_EQ(difference.abs_error, 3.0);
  EXPECT_EQ(difference.ulp, 0x3F80U + 0x4000U + 1);
  EXPECT_TRUE(difference.where.empty());
}

TEST(CompareAll, AnyNanEqualsAnyNanOnlyInComputedResults) {
  const Tensor a = tensor_of(ElementType::bfloat16, {kNan, 0x7FC1, 0xFFC0, kOne});
  const Tensor b = tensor_of(ElementType::bfloat16, {0xFFFF, 0x7FC1, kNan, kOne});
  EXPECT_EQ(compare_all(a, b, NanRule::any_nan).mismatches, 0);
  const Tally bits = compare_all(a, b, NanRule::bits);
  EXPECT_EQ(bits.mismatches, 2);
  EXPECT_EQ(bits.nan_mismatches, 0);
  EXPECT_EQ(bits.max_abs_error, 0);
  EXPECT_GT(bits.max_ulp, 0U);
}

TEST(CompareAll, OneSidedNanIsTheWorstOfAll) {
  const Tensor a = tensor_of(ElementType::bfloat16, {0x7F80, kOne, kOne});
  const Tensor b = tensor_of(ElementType::bfloat16, {0xFF80, kNan, kOne});
  const Tally tally = compare_all(a, b, NanRule::any_nan);
  EXPECT_EQ(tally.mismatches, 2);
  EXPECT_EQ(tally.nan_mismatches, 1);
  EXPECT_EQ(tally.max_abs_error, kInfinity);
  EXPECT_EQ(tally.max_ulp, UINT64_MAX);
  EXPECT_EQ(tally.worst->flat_index, 1);
  EXPECT_TRUE(std::isnan(tally.worst->got));
}

TEST(CompareAll, SignedZerosDiffer) {
  for (const ElementType type : {ElementType::bfloat16, ElementType::float16, ElementType::float32,
                                 ElementType::float8_e4m3fn, ElementType::float8_e5m2}) {
    const std::uint64_t minus_zero = std::uint64_t{1} << (8 * element_size(type) - 1);
    const Tally tally =
        compare_all(tensor_of(type, {0}), tensor_of(type, {minus_zero}), NanRule::any_nan);
    EXPECT_EQ(tally.mismatches, 1) << name_of(type);
    EXPECT_EQ(tally.max_abs_error, 0) << name_of(type);
    EXPECT_EQ(tally.max_ulp, 1U) << name_of(type);
  }
}

TEST(CompareAll, KeepsTheFirstFewInFlatOrder) {
  const Tensor a = ones(9000);
  Tensor b = a;
  for (std::int64_t i = 8999; i >= 100; i -= 100) set_bits(b, i, kOne + 1);
  EXPECT_THAT(indices(compare_all(a, b, NanRule::bits).first),
              ElementsAre(199, 299, 399, 499, 599, 699, 799, 899));
  const Tally two = compare_all(a, b, NanRule::bits, {.threads = 1, .kept_differences = 2});
  EXPECT_THAT(indices(two.first), ElementsAre(199, 299));
  const Tally none = compare_all(a, b, NanRule::bits, {.threads = 1, .kept_differences = 0});
  EXPECT_TRUE(none.first.empty());
  EXPECT_EQ(none.mismatches, 89);
  EXPECT_EQ(none.worst->flat_index, 199);
}

struct WorstCase {
  const char* name;
  std::vector<std::pair<std::int64_t, std::uint64_t>> changes;  // index, bits against 1.0
  std::int64_t worst;
};

void PrintTo(const WorstCase& c, std::ostream* out) {
  *out << c.name;
}

class Worst : public testing::TestWithParam<WorstCase> {};

// The errors stand in different blocks of the comparison.
TEST_P(Worst, IsTheLargestErrorThenUlpThenLowestIndex) {
  const Tensor a = ones(40000);
  Tensor b = a;
  for (const auto& [index, bits] : GetParam().changes) set_bits(b, index, bits);
  const Tally tally = compare_all(a, b, NanRule::any_nan, {.threads = 1, .kept_differences = 1});
  EXPECT_EQ(tally.worst->flat_index, GetParam().worst);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Worst,
    testing::Values(
        WorstCase{"LargestError", {{7, 0x4000}, {30000, 0x4040}, {39999, 0x4000}}, 30000},
        WorstCase{"LowestIndexOfATie", {{9000, 0x4000}, {20000, 0x4000}, {39999, 0x4000}}, 9000},
        // 0 and 2 are both 1 away from 1, 0 by more steps.
        WorstCase{"MoreUlpOfATie", {{7, 0x4000}, {20000, 0x0000}, {30000, 0x0000}}, 20000},
        // The large ulp belongs to a smaller error.
        WorstCase{"UlpOfASmallerError", {{7, 0x4000}, {20000, 0x3E80}, {20001, 0x3F81}}, 7},
        WorstCase{"NanBeatsInfinity", {{7, 0x7F80}, {20000, 0x7FC0}, {30000, 0xFFC0}}, 20000}),
    [](const auto& c) { return c.param.name; });

class Threads : public testing::TestWithParam<ElementType> {};

TEST_P(Threads, ChangeNothing) {
  const ElementType type = GetParam();
  const std::int64_t elements = (5 << 20) / static_cast<std::int64_t>(element_size(type)) + 7;
  Tensor a = Tensor::allocate(type, {elements});
  Tensor b = Tensor::allocate(type, {elements});
  std::mt19937_64 random(6);
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::uint64_t bits = random();
    set_bits(a, i, bits);
    set_bits(b, i, bits % 50 == 0 && i > 1000 ? random() : bits);
  }
  const Tally one = compare_all(a, b, NanRule::any_nan, {.threads = 1});
  ASSERT_GT(one.mismatches, elements / 100);
  for (const int threads : {2, 3, 5, 64, 0}) {
    SCOPED_TRACE(std::to_string(threads) + " threads, seed 6");
    expect_same(compare_all(a, b, NanRule::any_nan, {.threads = threads}), one);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Threads, testing::ValuesIn(kAllTypes),
                         [](const auto& type) { return std::string(name_of(type.param)); });

// Odd elements are copies and do not count, even ones are computed.
ElementMap odd_and_even(std::int64_t elements) {
  ElementMap map;
  map.regions = {{"even", true, (elements + 1) / 2}, {"odd", false, elements / 2}};
  map.class_of = [](std::int64_t flat) {
    return flat % 2 == 0 ? ElementClass{0, NanRule::any_nan} : ElementClass{1, NanRule::bits};
  };
  map.where = [](std::int64_t flat) { return Coordinates{{"half", flat / 2}}; };
  return map;
}

TEST(CompareElements, TalliesRegionsApart) {
  const Tensor a = tensor_of(ElementType::bfloat16, {kNan, kNan, kOne, kOne, kOne});
  const Tensor b = tensor_of(ElementType::bfloat16, {0xFFC0, 0xFFC0, 0x4000, 0x4040, kOne});
  const std::vector<Region> regions = compare_elements(a, b, odd_and_even(5));
  ASSERT_EQ(regions.size(), 2U);
  EXPECT_EQ(regions[0].name, "even");
  EXPECT_TRUE(regions[0].counts);
  EXPECT_EQ(regions[0].tally.elements, 3);
  EXPECT_THAT(indices(regions[0].tally.first), ElementsAre(2));
  EXPECT_EQ(regions[0].tally.first[0].where, (Coordinates{{"half", 1}}));
  EXPECT_FALSE(regions[1].counts);
  EXPECT_EQ(regions[1].tally.elements, 2);
  EXPECT_THAT(indices(regions[1].tally.first), ElementsAre(1, 3));
  EXPECT_EQ(regions[1].tally.worst->flat_index, 3);
  EXPECT_EQ(regions[1].tally.max_abs_error, 2.0);
  expect_same(total_of(regions), regions[0].tally);
}

TEST(CompareElements, TakesRunsOfAnyLength) {
  constexpr std::int64_t kElements = 20000;
  const Tensor a = ones(kElements);
  Tensor b = a;
  for (std::int64_t i = 0; i < kElements; i += 7) set_bits(b, i, kOne + 1);
  for (const std::int64_t period : {1, 3, 31, 32, 33, 1000, 5000}) {
    ElementMap map;
    map.regions = {{"a", true, 0}, {"b", true, 0}};
    map.class_of = [&](std::int64_t flat) {
      const auto region = static_cast<std::size_t>(flat / period % 2);
      return ElementClass{region, NanRule::bits, period - flat % period};
    };
    std::vector<std::int64_t> wanted(2, 0);
    for (std::int64_t i = 0; i < kElements; i += 7)
      ++wanted[static_cast<std::size_t>(i / period % 2)];
    const std::vector<Region> regions = compare_elements(a, b, map, {.threads = 2});
    EXPECT_EQ(regions[0].tally.mismatches, wanted[0]) << period;
    EXPECT_EQ(regions[1].tally.mismatches, wanted[1]) << period;
  }
}

TEST(TotalOf, MergesCountingRegionsInFlatOrder) {
  const Tensor a = ones(100);
  Tensor b = a;
  for (std::int64_t i = 10; i < 100; i += 5) set_bits(b, i, kOne + 1);
  set_bits(b, 50, 0x4000);
  set_bits(b, 61, 0x4000);
  ElementMap map = odd_and_even(100);
  map.regions[1].counts = true;
  const std::vector<Region> regions = compare_elements(a, b, map);
  const Tally total = total_of(regions);
  expect_same(total, compare_all(a, b, NanRule::bits));
  EXPECT_EQ(total.worst->flat_index, 50);
  EXPECT_THAT(indices(total.first), ElementsAre(10, 15, 20, 25, 30, 35, 40, 45));
}

}  // namespace
}  // namespace zerodiff::compare
