#include "compare/headroom.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace zerodiff::compare {
namespace {

void add(HeadroomCollector& collector, std::int64_t index, double headroom) {
  collector.add(index, headroom, 0, 1, headroom);
}

std::int64_t elements_up_to(const Headroom& headroom, double upper) {
  for (const HeadroomBin& bin : headroom.histogram) {
    if (bin.upper == upper) return bin.elements;
  }
  ADD_FAILURE() << "no bin ends at " << upper;
  return -1;
}

TEST(HeadroomOfElements, CountsWhatIsOutside) {
  HeadroomCollector collector(2);
  add(collector, 7, 1.5);
  add(collector, 3, 1.0);
  add(collector, 5, std::numeric_limits<double>::infinity());
  add(collector, 1, std::nan(""));
  collector.add_unbounded();
  const Headroom headroom = collector.result();
  EXPECT_EQ(headroom.elements, 5);
  EXPECT_EQ(headroom.outside, 3);
  EXPECT_EQ(headroom.unbounded, 1);
  ASSERT_EQ(headroom.first_outside.size(), 2U);
  EXPECT_EQ(headroom.first_outside[0].flat_index, 1);
  EXPECT_EQ(headroom.first_outside[1].flat_index, 5);
}

TEST(HeadroomOfElements, HasQuantilesToOnePartIn64) {
  HeadroomCollector collector;
  for (int i = 1; i <= 1000; ++i) add(collector, i, i / 1000.0);
  const Headroom headroom = collector.result();
  EXPECT_EQ(headroom.max, 1.0);
  EXPECT_NEAR(headroom.median, 0.5, 0.5 / 64);
  EXPECT_NEAR(headroom.p90, 0.9, 0.9 / 64);
  EXPECT_NEAR(headroom.p99, 0.99, 0.99 / 64);
  EXPECT_EQ(headroom.outside, 0);
  EXPECT_EQ(headroom.worst->flat_index, 1000);
}

TEST(HeadroomOfElements, HasAHistogramOfAllElements) {
  HeadroomCollector collector;
  for (const double headroom : {0.0, 0.0, 0.015, 0.3, 1.0, 1.01, 50.0}) {
    add(collector, 0, headroom);
  }
  const Headroom headroom = collector.result();
  EXPECT_EQ(elements_up_to(headroom, 0), 2);
  EXPECT_EQ(elements_up_to(headroom, 0.02), 1);
  EXPECT_EQ(elements_up_to(headroom, 0.5), 1);
  EXPECT_EQ(elements_up_to(headroom, 1), 1);
  EXPECT_EQ(elements_up_to(headroom, 2), 1);
  EXPECT_EQ(elements_up_to(headroom, HUGE_VAL), 1);
}

TEST(HeadroomOfElements, DoesNotDependOnHowItIsCollected) {
  HeadroomCollector whole(3);
  HeadroomCollector even(3);
  HeadroomCollector odd(3);
  for (int i = 0; i < 200; ++i) {
    const double headroom = std::fmod(i * 0.37, 1.7);
    add(whole, i, headroom);
    add(i % 2 == 0 ? even : odd, i, headroom);
  }
  odd.merge(even);
  const Headroom a = whole.result();
  const Headroom b = odd.result();
  EXPECT_EQ(a.outside, b.outside);
  EXPECT_EQ(a.median, b.median);
  EXPECT_EQ(a.worst->flat_index, b.worst->flat_index);
  ASSERT_EQ(a.first_outside.size(), b.first_outside.size());
  for (std::size_t i = 0; i < a.first_outside.size(); ++i) {
    EXPECT_EQ(a.first_outside[i].flat_index, b.first_outside[i].flat_index);
  }
}

TEST(HeadroomOfElements, MayBeEmpty) {
  const Headroom headroom = HeadroomCollector().result();
  EXPECT_EQ(headroom.elements, 0);
  EXPECT_EQ(headroom.max, 0);
  EXPECT_FALSE(headroom.worst);
}

}  // namespace
}  // namespace zerodiff::compare
