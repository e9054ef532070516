// Pools of more than 2^31 elements, mapped but not filled: slots at their end land where they
// should. The bug of 32-bit offsets is planted beside, to show that these calls would find it.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/host/host_backend.h"
#include "tests/device/paths_test_support.h"
#include "tests/device/planted/planted_bugs.h"

namespace zerodiff::device {
namespace {

struct HugePool {
  std::string name;
  std::optional<ElementType> cache_dtype;
  KvStorage storage;
};

// Two rows in slots at both ends of the last block of a pool of 2^31 + 128 * 128 elements a plane.
struct HugeCall {
  LayerCall call;    // its cache tensors have the shape of the pool, but no memory behind them
  LayerCall folded;  // the same with the last block alone
};

HugeCall make_huge_call(const HugePool& pool) {
  NamedCall named = named_calls().front();
  named.options.config.num_heads = named.options.config.num_kv_heads = 1;
  named.options.config.num_index_heads = 1;
  named.options.config.batch_mode = BatchMode::eager;
  named.options.config.num_tokens = 2;
  named.options.capacity = 2;
  named.options.empty_row_share = 0;
  named.options.config.scale_granularity = ScaleGranularity::tensor;
  named.options.config.kv_cache_dtype = pool.cache_dtype;
  named.options.config.index_cache_dtype = pool.cache_dtype;
  named.options.config.kv_storage = pool.storage;
  named.options.with_attention_metadata = false;
  HugeCall huge{named.make(), {}};
  huge.folded = huge.call;
  const std::int64_t blocks = (std::int64_t{1} << 31) / (kBlockSize * kHeadDim) + 1;
  const auto resize = [&](Tensor& cache, std::int64_t rows_a_block, std::int64_t count) {
    Shape shape = cache.shape();
    shape[0] = count * rows_a_block;
    cache = Tensor::allocate(cache.type(), shape);
  };
  for (auto [call, count] : {std::pair{&huge.call, blocks}, std::pair{&huge.folded, 1L}}) {
    if (pool.storage == KvStorage::separate) {
      resize(call->k_cache, kPagesPerBlock, count);
      resize(call->v_cache, kPagesPerBlock, count);
    } else {
      resize(call->kv_cache, 1, count);
    }
    resize(call->index_cache, 1, count);
    for (Tensor* slots : {&call->slot_mapping, &call->index_slot_mapping}) {
      slots->as<std::int64_t>()[0] = (count - 1) * kBlockSize;
      slots->as<std::int64_t>()[1] = count * kBlockSize - 1;
    }
  }
  return huge;
}

// What the last block of each cache holds after a run of the huge call.
std::optional<std::string> difference_in_last_block(const HugeCall& huge, PathKind kind,
                                                    Backend& backend) {
  PathOptions options;
  options.cache_fill = std::byte{0};
  const Outputs wanted = run_without_faults(huge.folded, kind, backend, options);
  const PathLaunches launches = path_launches(kind, huge.call, options);
  const auto resident = backend.allocate(launches.list);
  resident->upload();
  const RunReport report = resident->run();
  if (!report.ok()) return std::string(name_of(report.faults.front().kind));
  for (const PathLaunches::Result& result : launches.results) {
    const Tensor& expected = wanted.*result.field;
    Tensor block = Tensor::allocate(expected.type(), expected.shape());
    const std::int64_t end = launches.list.buffer(result.buffer).size_bytes();
    resident->download_part(result.buffer, end - static_cast<std::int64_t>(block.size_bytes()),
                            block.bytes());
    if (!identical(block, expected)) return launches.list.buffer(result.buffer).name;
  }
  return std::nullopt;
}

class HugePools : public testing::TestWithParam<HugePool> {};

TEST_P(HugePools, ReceiveRowsAtTheirEnd) {
  const HugeCall huge = make_huge_call(GetParam());
  HostBackend backend({.wave_width = 32, .threads = 1});
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    EXPECT_EQ(difference_in_last_block(huge, kind, backend), std::nullopt) << name_of(kind);
  }
}

TEST_P(HugePools, ShowOffsetsOf32Bits) {
  const HugeCall huge = make_huge_call(GetParam());
  HostBackend planted({.wave_width = 32, .threads = 1}, planted_kernels());
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    const PlantGuard guard(PlantedBug::slot_int32_overflow, huge.folded);
    EXPECT_NE(difference_in_last_block(huge, kind, planted), std::nullopt) << name_of(kind);
  }
}

const HugePool kPools[] = {
    {"bf16_separate", std::nullopt, KvStorage::separate},
    {"bf16_contiguous", std::nullopt, KvStorage::block_contiguous},
    {"fp8_separate", ElementType::float8_e4m3fn, KvStorage::separate},
    {"fp8_contiguous", ElementType::float8_e4m3fn, KvStorage::block_contiguous},
};

INSTANTIATE_TEST_SUITE_P(Paths, HugePools, testing::ValuesIn(kPools),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace zerodiff::device
