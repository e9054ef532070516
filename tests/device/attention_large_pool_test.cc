// Pools whose element offsets pass 2^31 and contexts of a million tokens. The pools are all zeros
// and never touched: what is tested is that every address is inside of them, and the right one in
// as far as selections and lengths tell.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "device/host/host_backend.h"
#include "device/paths/attention_launches.h"
#include "tests/device/attention_test_support.h"

namespace zerodiff::device {
namespace {

constexpr std::int64_t kBlocks = 150'000;  // of 128 * 128 index elements: 2.3 GiB in fp8

struct LargePoolCase {
  KvStorage storage;
  std::int64_t context;  // ends a block
};

// One decode row whose table names blocks all over the pool.
LayerCall large_call(const LargePoolCase& of) {
  GeneratorOptions options = attention_options(2, 1, 51);
  options.config.kv_storage = of.storage;
  options.config.kv_cache_dtype = options.config.index_cache_dtype = ElementType::float8_e4m3fn;
  options.config.topk = 64;
  options.config.num_tokens = 1;
  options.config.phase = Phase::decode;
  options.min_context = options.max_context = of.context - 1;
  options.max_context_blocks = 2;
  options.sparse_rope_table = true;
  LayerCall call = generate_call(options);
  const auto table = call.block_table.as<std::int32_t>();
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<std::int32_t>(kBlocks - 1 - static_cast<std::int64_t>(i) * 17);
  }
  return call;
}

void add_pool(LaunchList& list, std::string name, ElementType type, std::int64_t count) {
  list.add_buffer({.name = std::move(name),
                   .type = type,
                   .count = count,
                   .role = BufferRole::input,
                   .initial = {.kind = InitialContent::Kind::fill, .fill = std::byte{0}}});
}

// What insertion would have left.
void add_inserted(LaunchList& list, const LayerCall& call) {
  const std::int64_t heads = call.config.num_kv_heads;
  add_pool(list, "q", call.model_dtype(), call.config.num_heads * kHeadDim);
  add_pool(list, "index_q", call.index_cache_type(), heads * kHeadDim);
  add_pool(list, "index_cache", call.index_cache_type(), kBlocks * kBlockSize * kHeadDim);
  const std::int64_t plane = kBlocks * kBlockSize * heads * kHeadDim;
  if (call.config.kv_storage == KvStorage::separate) {
    add_pool(list, "k_cache", call.kv_cache_type(), plane);
    add_pool(list, "v_cache", call.kv_cache_type(), plane);
  } else {
    add_pool(list, "kv_cache", call.kv_cache_type(), 2 * plane);
  }
  list.add_input("k_scale", call.k_scale);
  list.add_input("v_scale", call.v_scale);
  Tensor num_tokens = Tensor::allocate(ElementType::int32, {1});
  num_tokens.as<std::int32_t>()[0] = 1;
  list.add_input("num_tokens", std::move(num_tokens));
}

void expect_first_blocks(const LayerCall& call, const Outputs& outputs) {
  const std::int64_t stride = call.config.kv_storage == KvStorage::separate ? 8 : 16;
  const auto selection = outputs.topk_index.as<std::int32_t>();
  const auto table = outputs.sparse_block_table.as<std::int32_t>();
  // The local block, then the first of so many equal scores.
  EXPECT_EQ(selection[0], call.positions.as<std::int64_t>()[0] / kBlockSize);
  for (std::int32_t i = 1; i < 64; ++i) {
    EXPECT_EQ(selection[static_cast<std::size_t>(i)], i - 1);
    const std::int64_t block = kBlocks - 1 - std::int64_t{i - 1} * 17;
    EXPECT_EQ(table[static_cast<std::size_t>(i - 1) * 8 + 7], block * stride + 7);
  }
  EXPECT_EQ(outputs.sparse_context_lens.as<std::int32_t>()[0], 64 * 128);
  EXPECT_TRUE(std::ranges::all_of(outputs.attn_output.as<std::uint16_t>(),
                                  [](std::uint16_t bits) { return bits == 0; }));
}

class LargePool : public testing::TestWithParam<LargePoolCase> {};

TEST_P(LargePool, IsReadAtTheRightPlaces) {
  const LayerCall call = large_call(GetParam());
  for (const PathKind kind : kPathKinds) {
    PathLaunches launches;
    add_inserted(launches.list, call);
    append_attention(launches, call, kind);
    HostBackend backend;
    const std::unique_ptr<ResidentLaunchList> resident = backend.allocate(launches.list);
    resident->upload();
    const RunReport report = resident->run();
    ASSERT_TRUE(report.ok()) << to_string(report.faults[0]);
    expect_first_blocks(call, download_outputs(launches, *resident));
  }
}

INSTANTIATE_TEST_SUITE_P(Storages, LargePool,
                         testing::Values(LargePoolCase{KvStorage::separate, 1'048'576},
                                         LargePoolCase{KvStorage::block_contiguous, 131'072}),
                         [](const auto& each) { return std::string(name_of(each.param.storage)); });

}  // namespace
}  // namespace zerodiff::device
