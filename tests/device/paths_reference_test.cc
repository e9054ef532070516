// The zero-difference proof of the insertion paths: reference = unfused = fused on seeded random
// calls over the whole contract, byte for byte, on emulated waves of 32 and 64 lanes (or a GPU:
// test_backends.h).
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "device/paths/run_path.h"
#include "fixtures/generator.h"
#include "reference/layer.h"
#include "tests/device/test_backends.h"
#include "tests/oracle/outputs_difference.h"

namespace zerodiff::device {
namespace {

// Set by the build: sanitized builds run a tenth of the calls.
constexpr int kCallsPerShard = ZERODIFF_CALLS_PER_SHARD;
constexpr int kShards = 8;

void expect_zero_difference(const LayerCall& call, const Outputs& reference, Backend& backend,
                            const PathOptions& options, const std::string& where) {
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    const PathRun run = run_path(call, kind, backend, options);
    ASSERT_TRUE(run.report.ok()) << where << ": " << name_of(kind) << ": "
                                 << to_string(run.report.faults.front());
    ASSERT_EQ(oracle::first_difference(call, reference, run.outputs), "")
        << where << ": " << name_of(kind) << ", wave " << backend.wave_width();
  }
}

class PathsShard : public testing::TestWithParam<int> {};

TEST_P(PathsShard, EqualTheReferenceByteForByte) {
  std::cout << kCallsPerShard << " calls in this shard\n";
  const auto backends = test_backends();
  for (int i = 0; i < kCallsPerShard; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() + kShards * i);
    const GeneratorOptions options = random_options(seed);
    const LayerCall call = generate_call(options);
    const Outputs reference = reference::run_insertion(call, {}, 1);
    // One group for all heads of a tile, or as many as there are heads.
    PathOptions paths;
    if (i % 2 == 0) paths.wanted_work_groups = 1;
    for (const auto& backend : backends) {
      expect_zero_difference(call, reference, *backend, paths, describe(options));
    }
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Insertion, PathsShard, testing::Range(0, kShards),
                         [](const auto& shard) { return std::to_string(shard.param); });

}  // namespace
}  // namespace zerodiff::device
