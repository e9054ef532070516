#include "compare/mismatch_pattern.h"

#include <gtest/gtest.h>

#include <numeric>

namespace zerodiff::compare {
namespace {

using Values = std::vector<std::int64_t>;

Values numbers(std::int64_t count) {
  Values values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

Values those(std::int64_t count, bool (*fits)(std::int64_t)) {
  Values values;
  for (std::int64_t v = 0; v < count; ++v) {
    if (fits(v)) values.push_back(v);
  }
  return values;
}

struct PatternCase {
  const char* name;
  Values hit;
  Values all;
  const char* text;
};

const PatternCase kPatterns[] = {
    {"all", numbers(8), numbers(8), ""},
    {"none", {}, numbers(8), ""},
    {"one", {5}, numbers(8), "row 5 only"},
    {"from_on", {3, 4, 5, 6, 7}, numbers(8), "rows >= 3"},
    {"up_to", {0, 1, 2}, numbers(8), "rows < 3"},
    {"up_to_next_of_sparse", {0, 2}, {0, 2, 9, 11}, "rows < 9"},
    {"between", {2, 3, 4}, numbers(8), "rows 2-4"},
    {"even", those(8, [](std::int64_t v) { return v % 2 == 0; }), numbers(8), "even rows only"},
    {"odd", those(8, [](std::int64_t v) { return v % 2 == 1; }), numbers(8), "odd rows only"},
    {"every_fourth", those(32, [](std::int64_t v) { return v % 4 == 1; }), numbers(32),
     "rows % 4 = 1 only"},
    {"upper_half", those(128, [](std::int64_t v) { return v >= 64; }), numbers(128), "rows >= 64"},
    {"some_of_the_lower_half", those(128, [](std::int64_t v) { return v < 60 && v % 3 != 1; }),
     numbers(128), "rows < 64"},
    {"few", {1, 6, 11}, numbers(16), "rows 1, 6, 11"},
    {"scattered", {1, 6, 11, 12, 15, 23, 29, 34}, numbers(35), ""},
};

class AxisPattern : public testing::TestWithParam<PatternCase> {};

TEST_P(AxisPattern, IsNamed) {
  EXPECT_EQ(axis_pattern("row", "rows", GetParam().hit, GetParam().all), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(All, AxisPattern, testing::ValuesIn(kPatterns),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace zerodiff::compare
