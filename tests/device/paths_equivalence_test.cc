// The unfused and the fused path give the same bytes, however the device runs them.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "device/host/host_backend.h"
#include "tests/device/paths_test_support.h"

namespace zerodiff::device {
namespace {

class NamedCalls : public testing::TestWithParam<NamedCall> {};

TEST_P(NamedCalls, AreEqualOnEveryWaveWidthAndThreadCount) {
  const LayerCall call = GetParam().make();
  HostBackend first({.wave_width = 32, .threads = 1});
  const Outputs wanted = run_without_faults(call, PathKind::unfused, first);
  for (const int wave_width : {32, 64}) {
    for (const unsigned threads : {1U, 3U}) {
      HostBackend backend({.wave_width = wave_width, .threads = threads});
      for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
        const Outputs outputs = run_without_faults(call, kind, backend);
        EXPECT_EQ(first_difference(call, wanted, outputs), "")
            << name_of(kind) << ", wave " << wave_width << ", " << threads << " threads";
      }
    }
  }
}

TEST_P(NamedCalls, DoNotDependOnTheSplitOfHeads) {
  const LayerCall call = GetParam().make();
  HostBackend backend({.wave_width = 32, .threads = 1});
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    const Outputs wanted = run_without_faults(call, kind, backend);
    for (const std::int64_t groups : {1, 3, 5, 14}) {
      PathOptions options;
      options.wanted_work_groups = groups;
      EXPECT_EQ(first_difference(call, wanted, run_without_faults(call, kind, backend, options)),
                "")
          << name_of(kind) << ", " << groups << " groups";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, NamedCalls, testing::ValuesIn(named_calls()),
                         [](const auto& each) { return each.param.name; });

// Calls at random; paths_reference_test.cc compares thousands of them with the reference.
TEST(RandomCalls, AreEqualUnfusedAndFusedWithWholeTilesInOneGroup) {
  HostBackend wave32({.wave_width = 32, .threads = 1});
  HostBackend wave64({.wave_width = 64, .threads = 3});
  PathOptions options;
  options.wanted_work_groups = 1;
  for (std::uint64_t seed = 500; seed < 540; ++seed) {
    const GeneratorOptions drawn = random_options(seed);
    const LayerCall call = generate_call(drawn);
    const Outputs unfused = run_without_faults(call, PathKind::unfused, wave32, options);
    const Outputs fused = run_without_faults(call, PathKind::fused, wave64, options);
    ASSERT_EQ(first_difference(call, unfused, fused), "") << describe(drawn);
  }
}

TEST(EmptyCall, HasNoLaunches) {
  NamedCall named = named_calls().front();
  LayerCall call = named.make();
  call.config.num_tokens = 0;
  call.qkv = Tensor::allocate(call.qkv.type(), {0, call.config.row_elements()});
  call.positions = Tensor::allocate(ElementType::int64, {0});
  call.slot_mapping = Tensor::allocate(ElementType::int64, {0});
  call.index_slot_mapping = Tensor::allocate(ElementType::int64, {0});
  HostBackend backend;
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    EXPECT_TRUE(path_launches(kind, call).list.launches().empty());
    const Outputs outputs = run_without_faults(call, kind, backend);
    EXPECT_EQ(outputs.q.shape(), (Shape{0, call.config.num_heads * kHeadDim}));
    EXPECT_TRUE(identical(outputs.k_cache, call.k_cache));
  }
}

}  // namespace
}  // namespace zerodiff::device
