// run_insertion against tests/oracle on seeded random calls: every byte of every output.
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "fixtures/generator.h"
#include "reference/layer.h"
#include "tests/oracle/layer.h"
#include "tests/oracle/outputs_difference.h"

namespace zerodiff::reference {
namespace {

// Set by the build: sanitized builds are ten times slower and run a tenth of the calls.
constexpr int kCallsPerShard = ZERODIFF_CALLS_PER_SHARD;
constexpr int kShards = 8;

class InsertionShard : public testing::TestWithParam<int> {};

TEST_P(InsertionShard, EqualsTheOracleByteForByte) {
  std::cout << kCallsPerShard << " calls in this shard\n";
  for (std::uint64_t i = 0; i < kCallsPerShard; ++i) {
    const std::uint64_t seed = static_cast<std::uint64_t>(GetParam()) + kShards * i;
    const GeneratorOptions options = random_options(seed);
    const LayerCall call = generate_call(options);
    const Outputs expected = oracle::run_insertion(call);
    const Outputs got = run_insertion(call, {}, 1);
    ASSERT_EQ(oracle::first_difference(call, expected, got), "") << describe(options);
  }
}

INSTANTIATE_TEST_SUITE_P(Insertion, InsertionShard, testing::Range(0, kShards),
                         [](const auto& shard) { return std::to_string(shard.param); });

class InsertionThreads : public testing::TestWithParam<int> {};

TEST_P(InsertionThreads, ChangeNothing) {
  for (std::uint64_t seed = 5000; seed < 5000 + kCallsPerShard / 5; ++seed) {
    const GeneratorOptions options = random_options(seed);
    const LayerCall call = generate_call(options);
    const Outputs one = run_insertion(call, {}, 1);
    const Outputs many = run_insertion(call, {}, GetParam());
    for (const OutputField& field : kOutputFields) {
      ASSERT_TRUE(identical(one.*field.tensor, many.*field.tensor))
          << field.name << " differs: " << describe(options);
    }
  }
}

// 0 is one thread for each core; 64 is more than any of the calls has rows.
INSTANTIATE_TEST_SUITE_P(Insertion, InsertionThreads, testing::Values(2, 3, 7, 64, 0),
                         [](const auto& threads) { return std::to_string(threads.param); });

TEST(Insertion, LeavesTheCallAlone) {
  for (std::uint64_t seed = 7000; seed < 7020; ++seed) {
    const GeneratorOptions options = random_options(seed);
    const LayerCall call = generate_call(options);
    const LayerCall before = call;
    run_insertion(call);
    for (const InputField& field : kInputFields) {
      ASSERT_TRUE(identical(call.*field.tensor, before.*field.tensor))
          << field.name << " changed: " << describe(options);
    }
  }
}

// The table of a compacted call may lack position 0, which only negative positions read: the
// identity then, which is what a real table's row 0 holds.
TEST(Insertion, NegativePositionsNeedNoRowOfPositionZero) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    GeneratorOptions options = random_options(seed);
    options.sparse_rope_table = true;
    options.min_context = 10;
    options.max_context = 40;
    options.empty_row_share = 0.5;
    options.capacity = options.config.num_tokens;
    LayerCall call = generate_call(options);
    const Outputs with_row = run_insertion(call);
    for (std::int64_t& position : call.cos_sin_rows.as<std::int64_t>()) {
      if (position == 0) position = -1;  // still ascending; no position looks for it
    }
    const Outputs without_row = run_insertion(call);
    ASSERT_EQ(oracle::first_difference(call, oracle::run_insertion(call), without_row), "")
        << describe(options);
    ASSERT_EQ(oracle::first_difference(call, with_row, without_row), "") << describe(options);
  }
}

// A graph buffer that permutes rows and is stale past them: its entries decide, slot_mapping does
// not, head_slot scales go with the slot that the entry stands for, and padding and empty rows
// store nothing even where it holds a slot for them.
TEST(Insertion, FollowsAGraphBufferThatDisagreesWithTheSlotMapping) {
  int permuted = 0;
  for (std::uint64_t seed = 0; permuted < kCallsPerShard / 5; ++seed) {
    GeneratorOptions options = random_options(seed);
    options.config.batch_mode = BatchMode::graph;
    options.config.kv_storage = KvStorage::block_contiguous;
    options.with_page16_buffer = true;
    options.page16_excess = 0;
    options.empty_row_share = seed % 2 == 0 ? 0 : 0.4;
    options.capacity = options.config.num_tokens + 2;
    LayerCall call = generate_call(options);
    const auto tokens = static_cast<std::size_t>(call.config.num_tokens);
    if (tokens < 2) continue;
    const auto buffer = call.page16_slot_mapping.as<std::int64_t>();
    std::swap(buffer[0], buffer[tokens - 1]);
    buffer[tokens] = buffer[0];
    buffer[tokens + 1] = 3;
    const Outputs expected = oracle::run_insertion(call);
    ASSERT_EQ(oracle::first_difference(call, expected, run_insertion(call)), "")
        << describe(options);
    ++permuted;
  }
}

}  // namespace
}  // namespace zerodiff::reference
