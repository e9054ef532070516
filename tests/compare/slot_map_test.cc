// The slot map report: graph-safe buffers that are equivalent, and every way of not being so.
#include "compare/slot_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/layer_call_checks.h"
#include "tests/compare/small_call.h"

namespace zerodiff::compare {
namespace {

using testing::HasSubstr;

GeneratorOptions graph_options() {
  GeneratorOptions options = small_options(2);
  options.config.kv_storage = KvStorage::block_contiguous;
  options.config.batch_mode = BatchMode::graph;
  options.with_page16_buffer = true;
  return options;
}

class GraphBuffer : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::int64_t> rows = stored_rows(call_);
    ASSERT_GE(rows.size(), 3U);
    row_ = rows[1];
    other_row_ = rows[2];
  }

  std::int64_t& entry(std::int64_t row) {
    return int64s(call_.page16_slot_mapping)[static_cast<std::size_t>(row)];
  }
  std::int64_t position(std::int64_t row) const {
    return call_.positions.as<std::int64_t>()[static_cast<std::size_t>(row)];
  }
  SlotMapReport report() const { return slot_map_report(call_); }

  // Everything that is not about a fault.
  void expect_not_equivalent(const SlotMapReport& report) const {
    EXPECT_EQ(report.verdict, SlotMapVerdict::not_equivalent);
    EXPECT_NE(report.reason, "");
    EXPECT_EQ(report.scheduled_rows, 9);
    EXPECT_EQ(report.padding_rows, 3);
    EXPECT_EQ(report.capacity, 12);
    EXPECT_TRUE(report.graph_buffer_present);
    EXPECT_EQ(report.graph_buffer_length, 12);
  }

  LayerCall call_ = generate_call(graph_options());
  std::int64_t row_ = 0;  // a row that stores, not the first
  std::int64_t other_row_ = 0;
};

TEST_F(GraphBuffer, IsEquivalentAsGenerated) {
  const SlotMapReport found = report();
  EXPECT_EQ(found.verdict, SlotMapVerdict::equivalent);
  EXPECT_EQ(found.reason, "");
  EXPECT_TRUE(found.graph_buffer_used);
  EXPECT_EQ(found.stored_rows, std::ssize(stored_rows(call_)));
  EXPECT_EQ(found.differing_rows, 0);
  EXPECT_EQ(found.stale_entries, 0);
  EXPECT_EQ(found.duplicates, 0);
  EXPECT_EQ(found.out_of_range, 0);
  EXPECT_FALSE(found.first_difference.has_value());
  EXPECT_TRUE(found.block_table_checked);
  EXPECT_EQ(found.block_table_disagreements, 0);
}

TEST_F(GraphBuffer, AnyNegativeEntryStoresNothing) {
  entry(11) = -77;
  for (std::int64_t row = 0; row < 9; ++row) {
    if (entry(row) < 0) entry(row) = INT64_MIN;
  }
  EXPECT_EQ(report().verdict, SlotMapVerdict::equivalent);
}

TEST_F(GraphBuffer, NamesTheFirstDifferingRowAndBothPlaces) {
  const std::int64_t eager = entry(row_);
  const std::int64_t block = eager / 256;
  // Another place of the same block that no row uses.
  std::int64_t slot = block * 256 + 127;
  while (std::ranges::find(int64s(call_.page16_slot_mapping), slot) !=
         int64s(call_.page16_slot_mapping).end()) {
    --slot;
  }
  entry(row_) = slot;
  const SlotMapReport found = report();
  expect_not_equivalent(found);
  EXPECT_TRUE(found.graph_buffer_used);
  EXPECT_EQ(found.differing_rows, 1);
  EXPECT_EQ(found.negative_became_real, 0);
  EXPECT_EQ(found.duplicates, 0);
  EXPECT_EQ(found.out_of_range, 0);
  ASSERT_TRUE(found.first_difference.has_value());
  const SlotDifference& difference = *found.first_difference;
  EXPECT_EQ(difference.row, row_);
  EXPECT_EQ(difference.position, position(row_));
  EXPECT_GE(difference.request, 0);
  EXPECT_EQ(difference.eager.slot, eager);
  EXPECT_EQ(difference.eager.page, eager / 16);
  EXPECT_EQ(difference.eager.offset, eager % 16);
  EXPECT_EQ(difference.graph_safe.slot, slot);
  EXPECT_EQ(difference.graph_safe.page, slot / 16);
  EXPECT_EQ(difference.graph_safe.offset, slot % 16);
  EXPECT_THAT(found.reason, HasSubstr("1 scheduled rows differ"));
  EXPECT_THAT(found.reason,
              HasSubstr("slot " + std::to_string(slot) + " (page " + std::to_string(slot / 16) +
                        ", offset " + std::to_string(slot % 16) + ")"));
}

TEST_F(GraphBuffer, RequestIsUnknownWithoutMetadata) {
  entry(row_) = -1;
  call_.query_start_loc = Tensor();
  const SlotMapReport found = report();
  expect_not_equivalent(found);
  EXPECT_EQ(found.first_difference->request, -1);
  EXPECT_EQ(found.first_difference->graph_safe.page, -1);
  EXPECT_FALSE(found.block_table_checked);
}

TEST_F(GraphBuffer, ADroppedRowDiffers) {
  entry(row_) = -1;
  const SlotMapReport found = report();
  expect_not_equivalent(found);
  EXPECT_EQ(found.differing_rows, 1);
  EXPECT_THAT(found.reason, HasSubstr("the buffer has nothing (slot -1)"));
}

TEST_F(GraphBuffer, AnUnrebasedSlotDiffers) {
  std::int64_t differing = 0;
  for (const std::int64_t row : stored_rows(call_)) {
    const std::int64_t slot = int64s(call_.slot_mapping)[static_cast<std::size_t>(row)];
    differing += entry(row) != slot ? 1 : 0;
    entry(row) = slot;
  }
  ASSERT_GT(differing, 0);
  const SlotMapReport found = report();
  expect_not_equivalent(found);
  EXPECT_EQ(found.differing_rows, differing);
}

TEST_F(GraphBuffer, ANegativeThatBecameRealIsCounted) {
  call_.positions.as<std::int64_t>()[static_cast<std::size_t>(row_)] = -1;
  call_.slot_mapping.as<std::int64_t>()[static_cast<std::size_t>(row_)] = -1;
  const SlotMapReport found = report();
  expect_not_equivalent(found);
  EXPECT_EQ(found.differing_rows, 1);
  EXPECT_EQ(found.negative_became_real, 1);
  EXPECT_EQ(found.first_difference->row, row_);
  EXPECT_EQ(found.first_difference->eager.slot, -1);
}

TEST_F(GraphBuffer, AStaleTailIsNotEquivalent) {
  const std::int64_t stale = 2 * call_.num_slots() - 256;
  entry(10) = stale;
  const SlotMapReport found = report();
  expect_not_equivalent(found);
  EXPECT_EQ(found.differing_rows, 0);
  EXPECT_EQ(found.stale_entries, 1);
  ASSERT_TRUE(found.first_difference.has_value());
  EXPECT_EQ(found.first_difference->row, 10);
  EXPECT_EQ(found.first_difference->request, -1);
  EXPECT_EQ(found.first_difference->eager.slot, -1);
  EXPECT_EQ(found.first_difference->graph_safe.slot, stale);
  EXPECT_THAT(found.reason, HasSubstr("1 stale entries"));
}

TEST_F(GraphBuffer, AStaleEntryMayRepeatALiveSlot) {
  entry(9) = entry(row_);
  entry(11) = entry(row_);
  const SlotMapReport found = report();
  expect_not_equivalent(found);
  EXPECT_EQ(found.stale_entries, 2);
  EXPECT_EQ(found.duplicates, 2);
  EXPECT_EQ(found.first_difference->row, 9);
}

TEST_F(GraphBuffer, TwoRowsWithOneSlotAreDuplicates) {
  entry(row_) = entry(other_row_);
  const SlotMapReport found = report();
  expect_not_equivalent(found);
  EXPECT_EQ(found.duplicates, 1);
  EXPECT_EQ(found.differing_rows, 1);
}

TEST_F(GraphBuffer, OnlyTheKHalfOfThePoolIsInRange) {
  const std::int64_t end = 2 * call_.num_slots();
  for (const std::int64_t slot : {end, end + 5, INT64_MAX, std::int64_t{128}, end - 1, end - 128}) {
    entry(row_) = slot;
    const SlotMapReport found = report();
    expect_not_equivalent(found);
    EXPECT_EQ(found.out_of_range, 1) << slot;
  }
  for (const std::int64_t slot : {std::int64_t{127}, end - 129, end - 256}) {
    entry(row_) = slot;
    EXPECT_EQ(report().out_of_range, 0) << slot;
  }
}

// Not a valid call, but the report must not miss it if nobody checked.
TEST_F(GraphBuffer, AnEquivalentBufferOfABadMappingIsNotEquivalent) {
  const auto slots = int64s(call_.slot_mapping);
  slots[static_cast<std::size_t>(row_)] = slots[static_cast<std::size_t>(other_row_)];
  entry(row_) = entry(other_row_);
  SlotMapReport found = report();
  EXPECT_EQ(found.verdict, SlotMapVerdict::not_equivalent);
  EXPECT_EQ(found.differing_rows, 0);
  EXPECT_THAT(found.reason, HasSubstr("1 entries repeat a slot"));
  slots[static_cast<std::size_t>(row_)] = call_.num_slots();
  entry(row_) = 2 * call_.num_slots();
  found = report();
  EXPECT_EQ(found.verdict, SlotMapVerdict::not_equivalent);
  EXPECT_THAT(found.reason, HasSubstr("not in the K half"));
}

TEST_F(GraphBuffer, IsComparedInEagerBatchesAlso) {
  call_.config.batch_mode = BatchMode::eager;
  EXPECT_EQ(report().verdict, SlotMapVerdict::equivalent);
  EXPECT_FALSE(report().graph_buffer_used);
  entry(row_) = -1;
  expect_not_equivalent(report());
  EXPECT_FALSE(report().graph_buffer_used);
}

TEST_F(GraphBuffer, DoesNotApplyWhenAbsent) {
  call_.page16_slot_mapping = Tensor();
  const SlotMapReport found = report();
  EXPECT_EQ(found.verdict, SlotMapVerdict::not_applicable);
  EXPECT_EQ(found.reason, "the call has no page16_slot_mapping");
  EXPECT_FALSE(found.graph_buffer_present);
  EXPECT_FALSE(found.graph_buffer_used);
}

TEST(SlotMap, ABufferOfAnotherLengthIsNotUsed) {
  GeneratorOptions options = graph_options();
  options.page16_excess = 4;
  const SlotMapReport found = slot_map_report(generate_call(options));
  EXPECT_EQ(found.verdict, SlotMapVerdict::not_applicable);
  EXPECT_THAT(found.reason, HasSubstr("16 entries"));
  EXPECT_THAT(found.reason, HasSubstr("12 rows"));
  EXPECT_TRUE(found.graph_buffer_present);
  EXPECT_FALSE(found.graph_buffer_used);
  EXPECT_EQ(found.graph_buffer_length, 16);
  EXPECT_EQ(found.differing_rows, 0);
}

TEST(SlotMap, ABufferIsIgnoredUnderSeparateStorage) {
  GeneratorOptions options = graph_options();
  options.config.kv_storage = KvStorage::separate;
  const SlotMapReport found = slot_map_report(generate_call(options));
  EXPECT_EQ(found.verdict, SlotMapVerdict::not_applicable);
  EXPECT_THAT(found.reason, HasSubstr("ignored"));
  EXPECT_TRUE(found.graph_buffer_present);
  EXPECT_FALSE(found.graph_buffer_used);
}

class BlockTable : public testing::TestWithParam<KvStorage> {};

TEST_P(BlockTable, CountsRowsThatStoreElsewhere) {
  GeneratorOptions options = small_options(4);
  options.config.kv_storage = GetParam();
  LayerCall call = generate_call(options);
  const std::vector<std::int64_t> rows = stored_rows(call);
  ASSERT_GE(rows.size(), 2U);
  SlotMapReport found = slot_map_report(call);
  EXPECT_TRUE(found.block_table_checked);
  EXPECT_EQ(found.block_table_disagreements, 0);
  EXPECT_EQ(found.index_block_table_disagreements, 0);

  const auto a = static_cast<std::size_t>(rows[0]);
  const auto b = static_cast<std::size_t>(rows[1]);
  std::swap(int64s(call.slot_mapping)[a], int64s(call.slot_mapping)[b]);
  found = slot_map_report(call);
  EXPECT_EQ(found.block_table_disagreements, 2);
  EXPECT_EQ(found.index_block_table_disagreements, 0);

  int64s(call.slot_mapping)[b] = -1;  // a row that stores nothing disagrees with nothing
  int64s(call.index_slot_mapping)[b] += 1;
  found = slot_map_report(call);
  EXPECT_EQ(found.block_table_disagreements, 1);
  EXPECT_EQ(found.index_block_table_disagreements, 1);
}

INSTANTIATE_TEST_SUITE_P(Storages, BlockTable,
                         testing::Values(KvStorage::separate, KvStorage::block_contiguous),
                         [](const auto& storage) { return std::string(name_of(storage.param)); });

// Whatever the generator makes is consistent: the report finds no fault in it.
TEST(SlotMap, GeneratedCallsAreNeverNotEquivalent) {
  int equivalent = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const GeneratorOptions options = random_options(seed);
    const LayerCall call = generate_call(options);
    const SlotMapReport found = slot_map_report(call);
    ASSERT_NE(found.verdict, SlotMapVerdict::not_equivalent) << describe(options) << found.reason;
    ASSERT_EQ(found.block_table_disagreements, 0) << describe(options);
    equivalent += found.verdict == SlotMapVerdict::equivalent ? 1 : 0;
  }
  EXPECT_GT(equivalent, 10);
}

}  // namespace
}  // namespace zerodiff::compare
