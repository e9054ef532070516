// What the paths write, and nothing else: the addresses of numerics.md section 8, evaluated here.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "device/host/host_backend.h"
#include "tests/device/paths_test_support.h"

namespace zerodiff::device {
namespace {

constexpr std::byte kFillA{0x5A};
constexpr std::byte kFillB{0xA5};

struct Runs {
  Outputs a;
  Outputs b;
};

Runs run_on_both_fills(const LayerCall& call, PathKind kind) {
  HostBackend backend({.wave_width = 32, .threads = 1});
  PathOptions a;
  PathOptions b;
  a.cache_fill = kFillA;
  b.cache_fill = kFillB;
  return {run_without_faults(call, kind, backend, a), run_without_faults(call, kind, backend, b)};
}

// Elements (by index) that hold something else than a fill in either run; written values must not
// depend on the fill.
std::vector<bool> written_elements(const Tensor& a, const Tensor& b) {
  const std::size_t size = element_size(a.type());
  std::vector<bool> written(static_cast<std::size_t>(a.size()));
  for (std::size_t i = 0; i < a.size_bytes(); ++i) {
    const bool touched = a.bytes()[i] != kFillA || b.bytes()[i] != kFillB;
    if (!touched) continue;
    written[i / size] = true;
  }
  for (std::size_t i = 0; i < a.size_bytes(); ++i) {
    if (written[i / size]) {
      EXPECT_EQ(a.bytes()[i], b.bytes()[i]) << "byte " << i << " depends on the fill";
    }
  }
  return written;
}

struct Place {
  std::int64_t page;
  std::int64_t head;
  std::int64_t offset;
  std::int64_t d;
};

std::int64_t k_element(const LayerCall& call, const Place& at) {
  const std::int64_t x = call.cache_vector_width();
  const std::int64_t nkv = call.config.num_kv_heads;
  return ((at.page * nkv + at.head) * (128 / x) + at.d / x) * 16 * x + at.offset * x + at.d % x;
}

std::int64_t v_element(const LayerCall& call, const Place& at) {
  const std::int64_t x = call.cache_vector_width();
  const std::int64_t nkv = call.config.num_kv_heads;
  return ((at.page * nkv + at.head) * (16 / x) + at.offset / x) * 128 * x + at.d * x +
         at.offset % x;
}

using Address = std::int64_t (*)(const LayerCall&, const Place&);

// Marks the elements of all stored rows, `first` elements further on.
void mark_kv(const LayerCall& call, Address address, std::int64_t first,
             std::vector<bool>& marked) {
  for (std::int64_t t = 0; t < call.capacity(); ++t) {
    if (!row_is_stored(call, t)) continue;
    const std::int64_t slot = physical_slot(call, t);
    for (std::int64_t head = 0; head < call.config.num_kv_heads; ++head) {
      for (std::int64_t d = 0; d < kHeadDim; ++d) {
        const Place at{slot / 16, head, slot % 16, d};
        marked.at(static_cast<std::size_t>(first + address(call, at))) = true;
      }
    }
  }
}

std::vector<bool> marked_index_cache(const LayerCall& call) {
  std::vector<bool> marked(static_cast<std::size_t>(call.index_cache.size()));
  for (std::int64_t t = 0; t < call.config.num_tokens; ++t) {
    const auto row = static_cast<std::size_t>(t);
    const std::int64_t slot = call.index_slot_mapping.as<std::int64_t>()[row];
    if (slot < 0 || call.positions.as<std::int64_t>()[row] < 0) continue;
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      marked.at(static_cast<std::size_t>(slot * kHeadDim + d)) = true;
    }
  }
  return marked;
}

void expect_kv_write_set(const LayerCall& call, const Runs& runs) {
  if (call.config.kv_storage == KvStorage::separate) {
    std::vector<bool> k(static_cast<std::size_t>(call.k_cache.size()));
    std::vector<bool> v(static_cast<std::size_t>(call.v_cache.size()));
    mark_kv(call, &k_element, 0, k);
    mark_kv(call, &v_element, 0, v);
    EXPECT_EQ(written_elements(runs.a.k_cache, runs.b.k_cache), k);
    EXPECT_EQ(written_elements(runs.a.v_cache, runs.b.v_cache), v);
    return;
  }
  std::vector<bool> kv(static_cast<std::size_t>(call.kv_cache.size()));
  mark_kv(call, &k_element, 0, kv);
  mark_kv(call, &v_element, 8 * call.config.num_kv_heads * 16 * 128, kv);
  EXPECT_EQ(written_elements(runs.a.kv_cache, runs.b.kv_cache), kv);
}

class WriteSet : public testing::TestWithParam<NamedCall> {};

// A written element may hold the fill's own byte, but not in both runs.
TEST_P(WriteSet, IsWhatTheSlotMappingImplies) {
  const LayerCall call = GetParam().make();
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    SCOPED_TRACE(name_of(kind));
    const Runs runs = run_on_both_fills(call, kind);
    expect_kv_write_set(call, runs);
    EXPECT_TRUE(identical(runs.a.q, runs.b.q));
    EXPECT_TRUE(identical(runs.a.index_q, runs.b.index_q));
    if (call.config.skip_index_branch) {
      EXPECT_FALSE(runs.a.index_cache.present());
      EXPECT_FALSE(runs.a.index_q.present());
      continue;
    }
    EXPECT_EQ(written_elements(runs.a.index_cache, runs.b.index_cache), marked_index_cache(call));
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, WriteSet, testing::ValuesIn(named_calls()),
                         [](const auto& each) { return each.param.name; });

// A graph that was recorded for the capacity replays with fewer live rows.
TEST(Replay, StoresAsManyRowsAsNumTokensSays) {
  const LayerCall call = named_calls().front().make();
  ASSERT_EQ(named_calls().front().name, "e4m3fn_head_slot_graph");
  LayerCall fewer = call;
  fewer.config.num_tokens = 7;
  PathOptions options;
  options.cache_fill = kFillA;
  HostBackend backend({.wave_width = 64, .threads = 1});
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    const Outputs wanted = run_without_faults(fewer, kind, backend, options);
    const PathLaunches launches = path_launches(kind, call, options);
    const auto resident = backend.allocate(launches.list);
    resident->upload();
    const std::int32_t live = 7;
    resident->upload(launches.list.find("num_tokens"), std::as_bytes(std::span(&live, 1)));
    ASSERT_TRUE(resident->run().ok());
    EXPECT_EQ(first_difference(call, wanted, download_outputs(launches, *resident)), "")
        << name_of(kind);
  }
}

// A graph-safe buffer of another length is not used: the mapping is rebuilt.
TEST(GraphSafeBuffer, IsUsedOnlyIfItsLengthIsTheCapacity) {
  NamedCall named = named_calls().front();
  for (const NamedCall& each : named_calls()) {
    if (each.name == "fp16_graph_stale_tail") named = each;
  }
  ASSERT_EQ(named.name, "fp16_graph_stale_tail");
  named.edit = nullptr;
  named.options.page16_excess = 3;
  const LayerCall too_long = named.make();
  ASSERT_EQ(too_long.page16_slot_mapping.size(), too_long.capacity() + 3);
  LayerCall without = too_long;
  without.page16_slot_mapping = Tensor();
  HostBackend backend({.wave_width = 32, .threads = 1});
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    const Outputs wanted = run_without_faults(without, kind, backend);
    EXPECT_EQ(first_difference(without, wanted, run_without_faults(too_long, kind, backend)), "");
    LayerCall moved = too_long;
    moved.page16_slot_mapping = Tensor::allocate(ElementType::int64, {moved.capacity()});
    const auto slots = moved.page16_slot_mapping.as<std::int64_t>();
    for (std::size_t t = 0; t < slots.size(); ++t) slots[t] = static_cast<std::int64_t>(t) + 3;
    const Outputs outputs = run_without_faults(moved, kind, backend);
    EXPECT_EQ(first_difference(moved, wanted, outputs).substr(0, 8), "kv_cache");
    expect_kv_write_set(moved, run_on_both_fills(moved, kind));
  }
}

}  // namespace
}  // namespace zerodiff::device
