// The write-set proof: what insertion leaves on two fills, with writes missed, added and mixed.
#include "compare/write_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "compare/written_elements.h"
#include "reference/layer.h"
#include "tests/compare/small_call.h"

namespace zerodiff::compare {
namespace {

constexpr std::byte kFill{0x5A};

LayerCall filled(const LayerCall& call, std::byte fill) {
  LayerCall copy = call;
  for (Tensor LayerCall::*cache :
       {&LayerCall::k_cache, &LayerCall::v_cache, &LayerCall::kv_cache, &LayerCall::index_cache}) {
    if ((copy.*cache).present()) std::ranges::fill((copy.*cache).bytes(), fill);
  }
  return copy;
}

// A correct path's outputs on both fills.
struct Runs {
  LayerCall call;
  Outputs on_fill;
  Outputs on_inverse;

  explicit Runs(const GeneratorOptions& options)
      : call(generate_call(options)),
        on_fill(reference::run_insertion(filled(call, kFill))),
        on_inverse(reference::run_insertion(filled(call, ~kFill))) {}

  WriteSetReport report(const std::string& output) const {
    for (const WriteSetReport& one : write_set_report(call, "fused", kFill, on_fill, on_inverse)) {
      if (one.output == output) return one;
    }
    ADD_FAILURE() << output << " has no report";
    return {};
  }

  // The first element of a cache that a row writes, or that none does.
  std::int64_t element(CacheOutput output, bool written) const {
    const WrittenSlots slots = written_slots(call);
    const CacheRegions regions(call, slots, output);
    for (std::int64_t i = 0;; ++i) {
      if (regions.is_written(regions.geometry().at(i)) == written) return i;
    }
  }
};

class WriteSetOfKind : public testing::TestWithParam<std::size_t> {};

TEST_P(WriteSetOfKind, OfACorrectPathIsExact) {
  const Runs runs(cache_kinds()[GetParam()].options);
  const auto reports = write_set_report(runs.call, "fused", kFill, runs.on_fill, runs.on_inverse);
  EXPECT_EQ(reports.size(),
            runs.call.config.kv_storage == KvStorage::separate ? std::size_t{3} : std::size_t{2});
  for (const WriteSetReport& report : reports) {
    EXPECT_TRUE(report.holds()) << report.output;
    EXPECT_GT(report.expected_bytes, 0) << report.output;
    EXPECT_EQ(report.written_bytes, report.expected_bytes) << report.output;
    EXPECT_FALSE(report.first_missed || report.first_extra || report.first_fill_dependent);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, WriteSetOfKind,
                         testing::Range(std::size_t{0}, cache_kinds().size()),
                         [](const auto& kind) { return name_of_kind(kind.param); });

TEST(WriteSet, SeesAMissedWrite) {
  Runs runs(small_options());
  const std::int64_t element = runs.element(CacheOutput::k_cache, true);
  const auto i = static_cast<std::size_t>(element);
  runs.on_fill.k_cache.as<std::uint16_t>()[i] = 0x5A5A;
  runs.on_inverse.k_cache.as<std::uint16_t>()[i] = 0xA5A5;
  const WriteSetReport report = runs.report("k_cache");
  EXPECT_FALSE(report.holds());
  EXPECT_EQ(report.missed_bytes, 2);
  EXPECT_EQ(report.extra_bytes, 0);
  ASSERT_TRUE(report.first_missed.has_value());
  EXPECT_GE(coordinate(*report.first_missed, "token"), 0);
  EXPECT_EQ(coordinate(*report.first_missed, "byte_offset"), 2 * element);
}

TEST(WriteSet, SeesAnExtraWriteThatOneFillHides) {
  Runs runs(small_options());
  const std::int64_t element = runs.element(CacheOutput::v_cache, false);
  const auto i = static_cast<std::size_t>(element);
  // A stray store of the very bytes that the first fill has.
  runs.on_inverse.v_cache.as<std::uint16_t>()[i] = 0x5A5A;
  const WriteSetReport report = runs.report("v_cache");
  EXPECT_EQ(report.extra_bytes, 2);
  EXPECT_EQ(report.missed_bytes, 0);
  EXPECT_EQ(report.fill_dependent_bytes, 0);
  ASSERT_TRUE(report.first_extra.has_value());
  EXPECT_EQ(coordinate(*report.first_extra, "token"), -1);
}

TEST(WriteSet, SeesAnAccumulation) {
  Runs runs(small_options());
  const auto i = static_cast<std::size_t>(runs.element(CacheOutput::index_cache, true));
  runs.on_inverse.index_cache.as<std::uint16_t>()[i] ^= 0x0100;
  const WriteSetReport report = runs.report("index_cache");
  EXPECT_EQ(report.fill_dependent_bytes, 1);
  EXPECT_EQ(report.missed_bytes, 0);
  EXPECT_TRUE(report.first_fill_dependent.has_value());
  EXPECT_FALSE(report.holds());
}

}  // namespace
}  // namespace zerodiff::compare
