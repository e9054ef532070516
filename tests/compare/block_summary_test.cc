// The vector loop against the scalar rules, element by element.
#include "compare/block_summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/compare/tensor_bits.h"

namespace zerodiff::compare {
namespace {

BlockSummary expected_summary(const Tensor& a, const Tensor& b, std::int64_t first,
                              std::int64_t count, bool equal_nans) {
  const ElementOrder order = element_order(a.type());
  BlockSummary summary;
  for (std::int64_t i = first; i < first + count; ++i) {
    const std::uint64_t x = get_bits(a, i);
    const std::uint64_t y = get_bits(b, i);
    if (x == y || (equal_nans && order.is_nan(x) && order.is_nan(y))) continue;
    const ElementDistance apart = distance(a.type(), order, x, y);
    ++summary.mismatches;
    summary.nan_mismatches += apart.one_nan ? 1 : 0;
    summary.max_abs_error = std::max(summary.max_abs_error, apart.abs_error);
    summary.max_ulp = std::max(summary.max_ulp, apart.ulp);
  }
  return summary;
}

void expect_equal(const Tensor& a, const Tensor& b, std::int64_t first, std::int64_t count,
                  bool equal_nans) {
  const auto size = static_cast<std::int64_t>(element_size(a.type()));
  const BlockSummary got =
      summarise_block(a.type(), a.bytes().data() + first * size, b.bytes().data() + first * size,
                      count * size, equal_nans);
  const BlockSummary wanted = expected_summary(a, b, first, count, equal_nans);
  ASSERT_EQ(got.mismatches, wanted.mismatches);
  ASSERT_EQ(got.nan_mismatches, wanted.nan_mismatches);
  ASSERT_EQ(got.max_abs_error, wanted.max_abs_error);
  ASSERT_EQ(got.max_ulp, wanted.max_ulp);
}

using Param = std::tuple<ElementType, bool>;

class BlockSummaryTest : public testing::TestWithParam<Param> {
 protected:
  ElementType type() const { return std::get<0>(GetParam()); }
  bool equal_nans() const { return std::get<1>(GetParam()); }

  // Any bits; half the time the same on both sides, sometimes one bit apart.
  void fill(Tensor& a, Tensor& b, std::mt19937_64& random) const {
    for (std::int64_t i = 0; i < a.size(); ++i) {
      const std::uint64_t x = random();
      const std::uint64_t kind = random() % 4;
      set_bits(a, i, x);
      set_bits(b, i, kind < 2 ? x : kind == 2 ? x ^ 1 : random());
    }
  }
};

// Each line on its own, so that no element hides behind a larger error: 8-bit types meet every pair
// of codes, wider ones many.
TEST_P(BlockSummaryTest, AgreesOnEveryPairOfCodesWithAllElseEqual) {
  Tensor a = Tensor::zeros(type(), {64});
  Tensor b = a;
  std::mt19937_64 random(3);
  for (std::uint64_t pair = 0; pair < 65536; ++pair) {
    const bool narrow = element_size(type()) == 1;
    const auto at = static_cast<std::int64_t>(pair % 64);
    set_bits(a, at, narrow ? pair >> 8 : random());
    set_bits(b, at, narrow ? pair & 0xFF : random());
    expect_equal(a, b, 0, 64, equal_nans());
    if (HasFatalFailure()) FAIL() << "pair " << pair << " seed 3";
    set_bits(a, at, 0);
    set_bits(b, at, 0);
  }
}

TEST_P(BlockSummaryTest, AgreesForEveryLengthAndStart) {
  const auto size = static_cast<std::int64_t>(element_size(type()));
  const std::int64_t most = kSummaryBytes / size;
  Tensor a = Tensor::allocate(type(), {most + 3});
  Tensor b = Tensor::allocate(type(), {most + 3});
  std::mt19937_64 random(4);
  for (const std::int64_t bytes : {0, 8, 16, 56, 64, 72, 120, 128, 136, 256, 1000, 4032, 4096}) {
    for (const std::int64_t start : {0, 1, 3}) {
      fill(a, b, random);
      expect_equal(a, b, start, bytes / size, equal_nans());
      if (HasFatalFailure()) FAIL() << bytes << " bytes from " << start << ", seed 4";
    }
  }
}

// Lanes count in the element's own width: a full block of mismatches must not wrap around.
TEST_P(BlockSummaryTest, CountsAFullBlock) {
  const std::int64_t elements = kSummaryBytes / static_cast<std::int64_t>(element_size(type()));
  const Tensor a = Tensor::zeros(type(), {elements});
  for (const std::uint64_t bits : {std::uint64_t{1}, ~std::uint64_t{0}, std::uint64_t{0x80}}) {
    const Tensor b =
        tensor_of(type(), std::vector<std::uint64_t>(static_cast<std::size_t>(elements), bits));
    expect_equal(a, b, 0, elements, equal_nans());
  }
}

INSTANTIATE_TEST_SUITE_P(Types, BlockSummaryTest,
                         testing::Combine(testing::ValuesIn(kAllTypes), testing::Bool()),
                         [](const auto& p) {
                           return std::string(name_of(std::get<0>(p.param))) +
                                  (std::get<1>(p.param) ? "_any_nan" : "_bits");
                         });

}  // namespace
}  // namespace zerodiff::compare
