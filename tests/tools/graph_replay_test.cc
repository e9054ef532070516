// Graph replay of the whole layer: equal to eager runs, and the host's faults of faults.md 1.9 are
// seen.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/host/host_backend.h"
#include "fixtures/generator.h"
#include "fixtures/layer_call_checks.h"
#include "tools/graph_batch.h"
#include "tools/graph_replay.h"

namespace zerodiff::tools {
namespace {

using device::PathKind;

// Decode of a few requests whose contexts can shrink by whole blocks.
GeneratorOptions decode_options(KvStorage storage) {
  GeneratorOptions options;
  options.seed = 11;
  options.config.num_heads = 4;
  options.config.num_kv_heads = 2;
  options.config.num_index_heads = 2;
  options.config.rotary_dim = 64;
  options.config.rms_norm_eps = 1e-6F;
  options.config.sm_scale = 0.088388346F;
  options.config.topk = 2;
  options.config.kv_cache_dtype = ElementType::float8_e4m3fn;
  options.config.kv_storage = storage;
  options.config.num_tokens = 5;
  options.config.batch_mode = BatchMode::graph;
  options.capacity = 8;
  options.num_requests = 5;
  options.min_context = 130;
  options.max_context = 500;
  options.with_page16_buffer = storage == KvStorage::block_contiguous;
  options.k_scale = 0.5F;
  options.v_scale = 2;
  return options;
}

struct ReplayCase {
  const char* name;
  GeneratorOptions options;
};
void PrintTo(const ReplayCase& row, std::ostream* out) {
  *out << row.name;
}

GeneratorOptions with(GeneratorOptions options, void (*edit)(GeneratorOptions&)) {
  edit(options);
  return options;
}

std::vector<ReplayCase> replay_cases() {
  const GeneratorOptions strided = decode_options(KvStorage::block_contiguous);
  const GeneratorOptions separate = decode_options(KvStorage::separate);
  return {
      {"page16_buffer", strided},
      {"separate_planes", separate},
      {"sixteen_bit_caches", with(strided, [](auto& o) { o.config.kv_cache_dtype.reset(); })},
      {"scale_a_slot",
       with(strided, [](auto& o) { o.config.scale_granularity = ScaleGranularity::head_slot; })},
      {"earlier_selection", with(separate, [](auto& o) { o.config.skip_index_branch = true; })},
      {"fp8_index",
       with(separate, [](auto& o) { o.config.index_cache_dtype = ElementType::float8_e5m2; })},
      {"prefill_eager", with(separate,
                             [](auto& o) {
                               o.config.phase = Phase::prefill;
                               o.config.batch_mode = BatchMode::eager;
                               o.config.num_tokens = 9;
                               o.capacity = 0;
                               o.num_requests = 2;
                             })},
      {"empty_rows", with(strided, [](auto& o) { o.empty_row_share = 0.4; })},
      {"selected_rope_rows", with(separate, [](auto& o) { o.sparse_rope_table = true; })},
      {"insertion_alone", with(strided, [](auto& o) { o.with_attention_metadata = false; })},
  };
}

class WholeLayer : public testing::TestWithParam<ReplayCase> {};

TEST_P(WholeLayer, ReplayedEqualsEager) {
  const LayerCall call = generate_call(GetParam().options);
  device::HostBackend backend({.threads = 1});
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    const auto report = replay_whole_layer(call, kind, backend, {.replays = 8});
    EXPECT_TRUE(report.equivalent) << report.first_difference;
    EXPECT_EQ(report.live_counts.size(), 8U);
    EXPECT_EQ(report.scope, compare::GraphScope::layer);
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, WholeLayer, testing::ValuesIn(replay_cases()),
                         [](const auto& row) { return std::string(row.param.name); });

// What a host forgets to refill, and where that shows.
struct PlantedFault {
  const char* name;
  KvStorage storage;
  std::vector<std::string> never_refilled;
};
void PrintTo(const PlantedFault& fault, std::ostream* out) {
  *out << fault.name;
}

class HostFault : public testing::TestWithParam<PlantedFault> {};

TEST_P(HostFault, IsSeenOnBothPaths) {
  const LayerCall call = generate_call(decode_options(GetParam().storage));
  device::HostBackend backend({.threads = 1});
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    const auto report = replay_whole_layer(
        call, kind, backend, {.replays = 8, .never_refilled = GetParam().never_refilled});
    EXPECT_FALSE(report.equivalent) << name_of(kind);
    EXPECT_NE(report.first_difference, "");
  }
}

constexpr KvStorage kStrided = KvStorage::block_contiguous;
INSTANTIATE_TEST_SUITE_P(Planted, HostFault,
                         testing::ValuesIn(std::vector<PlantedFault>{
                             {"slot_buffer_not_refilled", kStrided, {"page16_slot_mapping"}},
                             {"slots_baked_in", KvStorage::separate, {"slot_mapping"}},
                             {"index_slots_baked_in", kStrided, {"index_slot_mapping"}},
                             {"positions_baked_in", kStrided, {"positions"}},
                             {"block_table_baked_in", kStrided, {"block_table"}},
                             {"activations_baked_in", kStrided, {"qkv", "packed"}},
                             {"k_scale_by_value_at_capture", kStrided, {"k_scale"}},
                             {"v_scale_by_value_at_capture", kStrided, {"v_scale"}},
                             {"live_count_frozen", kStrided, {"num_tokens"}},
                         }),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(ChangedCall, IsValidAndUnlikeTheCall) {
  const LayerCall call = generate_call(decode_options(kStrided));
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const LayerCall other = changed_call(call, seed);
    EXPECT_NO_THROW(check_layer_call(other)) << seed;
    EXPECT_FALSE(identical(other.qkv, call.qkv)) << seed;
    EXPECT_FALSE(identical(other.positions, call.positions)) << seed;
    EXPECT_FALSE(identical(other.slot_mapping, call.slot_mapping)) << seed;
    EXPECT_FALSE(identical(other.block_table, call.block_table)) << seed;
    EXPECT_FALSE(identical(other.seq_lens, call.seq_lens)) << seed;
    EXPECT_EQ(other.qkv.shape(), call.qkv.shape());
  }
  EXPECT_TRUE(identical(changed_call(call, 3).qkv, changed_call(call, 3).qkv));
}

TEST(GraphBatch, HasTheLiveRowsAlone) {
  const LayerCall call = generate_call(decode_options(kStrided));
  for (const std::int64_t live : {0, 1, 3, 5}) {
    const LayerCall batch = graph_batch(call, live);
    EXPECT_EQ(batch.config.num_tokens, live);
    EXPECT_EQ(batch.query_start_loc.as<std::int32_t>().back(), live);
    const auto slots = batch.page16_slot_mapping.as<std::int64_t>();
    ASSERT_EQ(slots.size(), 8U);
    for (std::size_t row = 0; row < slots.size(); ++row) {
      EXPECT_EQ(slots[row] >= 0, row < static_cast<std::size_t>(live)) << row;
    }
    EXPECT_NO_THROW(check_layer_call(batch)) << live;
    EXPECT_NO_THROW(check_layer_call(eager_batch(batch))) << live;
    EXPECT_EQ(eager_batch(batch).capacity(), live);
  }
}

}  // namespace
}  // namespace zerodiff::tools
