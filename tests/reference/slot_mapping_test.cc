// reference/slot_mapping.h: which mapping is in force, and what a graph buffer must not hold.
#include "reference/slot_mapping.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "fixtures/error.h"
#include "fixtures/generator.h"
#include "reference/cache_layout.h"

namespace zerodiff::reference {
namespace {

using Slots = std::vector<std::int64_t>;

Tensor int64_tensor(const Slots& values) {
  Tensor tensor = Tensor::allocate(ElementType::int64, {static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as<std::int64_t>().begin());
  return tensor;
}

// Four rows of capacity, three scheduled, the second of them empty; a pool of 3 blocks.
LayerCall small_call(KvStorage storage, BatchMode mode) {
  GeneratorOptions options;
  options.config.num_heads = 1;
  options.config.num_kv_heads = 1;
  options.config.num_index_heads = 1;
  options.config.rotary_dim = 64;
  options.config.rms_norm_eps = 1e-6F;
  options.config.sm_scale = 1;
  options.config.num_tokens = 3;
  options.config.kv_storage = storage;
  options.config.batch_mode = mode;
  options.capacity = 4;
  options.max_context = 0;
  options.spare_blocks = 2;
  LayerCall call = generate_call(options);
  call.positions = int64_tensor({0, -1, 2, 0});
  call.slot_mapping = int64_tensor({130, -1, 383, -1});
  call.index_slot_mapping = int64_tensor({7, -1, 200, -1});
  return call;
}

TEST(SlotMapping, SeparateStorageTakesSlotsAsTheyAre) {
  const LayerCall call = small_call(KvStorage::separate, BatchMode::eager);
  const SlotMapping mapping = map_slots(call);
  EXPECT_EQ(mapping.kv, (Slots{130, -1, 383, -1}));
  EXPECT_EQ(mapping.index, (Slots{7, -1, 200, -1}));
  EXPECT_FALSE(mapping.from_graph_buffer);
}

TEST(SlotMapping, BlockContiguousStorageRebasesKvButNotIndex) {
  const LayerCall call = small_call(KvStorage::block_contiguous, BatchMode::eager);
  const SlotMapping mapping = map_slots(call);
  EXPECT_EQ(mapping.kv, (Slots{258, -1, 639, -1}));
  EXPECT_EQ(mapping.index, (Slots{7, -1, 200, -1}));
}

TEST(SlotMapping, SkippedIndexBranchHasNoIndexSlots) {
  LayerCall call = small_call(KvStorage::separate, BatchMode::eager);
  call.config.skip_index_branch = true;
  EXPECT_TRUE(map_slots(call).index.empty());
  call.index_slot_mapping = Tensor();
  EXPECT_TRUE(map_slots(call).index.empty());
}

struct BufferRow {
  const char* name;
  KvStorage storage;
  BatchMode mode;
  std::int64_t length;  // of the buffer; -1: none. The capacity is 4.
  bool used;
};
void PrintTo(const BufferRow& row, std::ostream* out) {
  *out << row.name;
}
const BufferRow kBufferRows[] = {
    {"graph_block_contiguous", KvStorage::block_contiguous, BatchMode::graph, 4, true},
    {"too_long", KvStorage::block_contiguous, BatchMode::graph, 5, false},
    {"absent", KvStorage::block_contiguous, BatchMode::graph, -1, false},
    {"eager", KvStorage::block_contiguous, BatchMode::eager, 4, false},
    {"separate", KvStorage::separate, BatchMode::graph, 4, false},
    {"separate_eager", KvStorage::separate, BatchMode::eager, 4, false},
};

class GraphBuffer : public testing::TestWithParam<BufferRow> {};

TEST_P(GraphBuffer, IsUsedOnlyInGraphBatchesOfBlockContiguousPools) {
  LayerCall call = small_call(GetParam().storage, GetParam().mode);
  Slots buffer{3, -1, 2, -1, -1};
  if (GetParam().length >= 0) {
    buffer.resize(static_cast<std::size_t>(GetParam().length));
    call.page16_slot_mapping = int64_tensor(buffer);
  }
  const bool rebased = GetParam().storage == KvStorage::block_contiguous;
  const Slots eager = rebased ? Slots{258, -1, 639, -1} : Slots{130, -1, 383, -1};
  const SlotMapping mapping = map_slots(call);
  EXPECT_EQ(uses_graph_buffer(call), GetParam().used);
  EXPECT_EQ(mapping.from_graph_buffer, GetParam().used);
  EXPECT_EQ(mapping.kv, GetParam().used ? (Slots{3, -1, 2, -1}) : eager);
  EXPECT_EQ(mapping.index, (Slots{7, -1, 200, -1}));
  EXPECT_EQ(eager_kv_slots(call), Slots(eager.begin(), eager.begin() + 3));
}

INSTANTIATE_TEST_SUITE_P(SlotMapping, GraphBuffer, testing::ValuesIn(kBufferRows),
                         [](const auto& row) { return std::string(row.param.name); });

// Entries of rows that store nothing are not looked at: padding rows, and rows without a position.
TEST(SlotMapping, StaleBufferEntriesOfPaddingAndEmptyRowsStoreNothing) {
  LayerCall call = small_call(KvStorage::block_contiguous, BatchMode::graph);
  call.page16_slot_mapping = int64_tensor({258, 5, 639, 258});
  const SlotMapping mapping = map_slots(call);
  EXPECT_TRUE(mapping.from_graph_buffer);
  EXPECT_EQ(mapping.kv[0], 258);
  EXPECT_LT(mapping.kv[1], 0);
  EXPECT_EQ(mapping.kv[2], 639);
  EXPECT_LT(mapping.kv[3], 0);
}

struct BadBufferRow {
  const char* name;
  Slots buffer;
};
void PrintTo(const BadBufferRow& row, std::ostream* out) {
  *out << row.name;
}
// The pool has 3 blocks: rebased slots 0..127, 256..383 and 512..639 are K's.
const BadBufferRow kBadBuffers[] = {
    {"two_rows_one_slot", {258, -1, 258, -1}},
    {"value_half", {128, -1, 639, -1}},
    {"end_of_value_half", {255, -1, 639, -1}},
    {"last_value_half", {258, -1, 640, -1}},
    {"past_the_pool", {258, -1, 768, -1}},
    {"far_past_the_pool", {258, -1, std::int64_t{1} << 62, -1}},
};

class BadGraphBuffer : public testing::TestWithParam<BadBufferRow> {};

TEST_P(BadGraphBuffer, IsAnErrorThatNamesTheDataset) {
  LayerCall call = small_call(KvStorage::block_contiguous, BatchMode::graph);
  ASSERT_EQ(call.num_blocks(), 3);
  call.page16_slot_mapping = int64_tensor(GetParam().buffer);
  try {
    map_slots(call);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find("page16_slot_mapping"), std::string::npos)
        << error.what();
  }
}

TEST_P(BadGraphBuffer, IsNoMatterWhereItIsNotUsed) {
  LayerCall call = small_call(KvStorage::block_contiguous, BatchMode::eager);
  call.page16_slot_mapping = int64_tensor(GetParam().buffer);
  EXPECT_EQ(map_slots(call).kv, (Slots{258, -1, 639, -1}));
}

INSTANTIATE_TEST_SUITE_P(SlotMapping, BadGraphBuffer, testing::ValuesIn(kBadBuffers),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(SlotMapping, LastSlotsOfThePoolAreValid) {
  LayerCall call = small_call(KvStorage::block_contiguous, BatchMode::graph);
  call.page16_slot_mapping = int64_tensor({127, -1, 639, -1});
  EXPECT_EQ(map_slots(call).kv, (Slots{127, -1, 639, -1}));
}

Tensor int32_tensor(const std::vector<std::int32_t>& values, const Shape& shape) {
  Tensor tensor = Tensor::allocate(ElementType::int32, shape);
  std::copy(values.begin(), values.end(), tensor.as<std::int32_t>().begin());
  return tensor;
}

TEST(RequestOfRow, SkipsRequestsWithoutRows) {
  LayerCall call;
  call.config.num_tokens = 5;
  call.query_start_loc = int32_tensor({0, 0, 2, 2, 2, 5, 5}, {7});
  const std::int64_t expected[] = {1, 1, 4, 4, 4};
  for (std::int64_t row = 0; row < 5; ++row) EXPECT_EQ(request_of_row(call, row), expected[row]);
}

TEST(SlotFromBlockTable, FollowsTheTableOfTheRowsRequest) {
  LayerCall call;
  call.config.num_tokens = 4;
  call.query_start_loc = int32_tensor({0, 1, 4}, {3});
  call.seq_lens = int32_tensor({129, 260}, {2});
  call.block_table = int32_tensor({4, 9, -1, 7, 0, 2}, {2, 3});
  call.positions = int64_tensor({128, 127, -1, 259});
  const std::int64_t expected[] = {9 * 128, 7 * 128 + 127, -1, 2 * 128 + 3};
  for (std::int64_t row = 0; row < 4; ++row) {
    EXPECT_EQ(slot_from_block_table(call, row), expected[row]) << row;
  }
}

TEST(SlotFromBlockTable, GivesTheSlotsOfGeneratedCalls) {
  int checked = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    GeneratorOptions options = random_options(seed);
    options.unstored_row_share = 0;
    options.with_attention_metadata = true;
    const LayerCall call = generate_call(options);
    const auto slots = call.slot_mapping.as<std::int64_t>();
    for (std::int64_t row = 0; row < call.config.num_tokens; ++row) {
      const std::int64_t slot = slots[static_cast<std::size_t>(row)];
      ASSERT_EQ(slot_from_block_table(call, row), slot < 0 ? -1 : slot) << describe(options);
      ++checked;
    }
  }
  EXPECT_GT(checked, 500);
}

}  // namespace
}  // namespace zerodiff::reference
