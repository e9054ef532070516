// Repeats and rows by themselves: what holds of correct paths, and that a result which depends on
// the run or on the row's place is seen.
#include <gtest/gtest.h>

#include <string>

#include "device/host/host_backend.h"
#include "device/paths/run_path.h"
#include "fixtures/generator.h"
#include "tools/path_invariance.h"

namespace zerodiff::tools {
namespace {

using device::PathKind;

device::PathOptions whole_layer() {
  device::PathOptions options;
  options.attention.emplace();
  return options;
}

// A prefill and a graph batch; contexts of several blocks.
GeneratorOptions prefill_options(bool graph) {
  GeneratorOptions options;
  options.seed = 5;
  options.config.num_heads = 4;
  options.config.num_kv_heads = 2;
  options.config.num_index_heads = 2;
  options.config.rotary_dim = 64;
  options.config.rms_norm_eps = 1e-6F;
  options.config.sm_scale = 0.088388346F;
  options.config.topk = 2;
  options.config.phase = Phase::prefill;
  options.config.num_tokens = 7;
  options.config.kv_cache_dtype = ElementType::float8_e4m3fn;
  options.num_requests = 2;
  options.max_context = 300;
  if (graph) {
    options.config.batch_mode = BatchMode::graph;
    options.config.kv_storage = KvStorage::block_contiguous;
    options.capacity = 12;
    options.with_page16_buffer = true;
  }
  return options;
}

class Invariance : public testing::TestWithParam<bool> {};

TEST_P(Invariance, HoldsOfBothPaths) {
  const LayerCall call = generate_call(prefill_options(GetParam()));
  device::HostBackend backend({.threads = 1});
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    const auto repeats = repeat_path(call, kind, backend, whole_layer(), 3);
    EXPECT_TRUE(repeats.equal) << repeats.first_difference;
    EXPECT_EQ(repeats.runs, 3);
    const device::PathRun whole = run_path(call, kind, backend, whole_layer());
    ASSERT_TRUE(whole.report.ok());
    const auto rows = rows_by_themselves(call, whole.outputs, kind, backend, whole_layer());
    EXPECT_TRUE(rows.invariant) << rows.first_difference;
    EXPECT_EQ(rows.rows, (std::vector<std::int64_t>{0, 3, 6}));
  }
}

INSTANTIATE_TEST_SUITE_P(Batches, Invariance, testing::Bool(), [](const auto& graph) {
  return std::string(graph.param ? "graph" : "eager");
});

struct AlteredOutput {
  const char* name;
  Tensor Outputs::*field;
};
void PrintTo(const AlteredOutput& row, std::ostream* out) {
  *out << row.name;
}

class AlteredRow : public testing::TestWithParam<AlteredOutput> {};

// As if the batch had given the last row other bytes than it has by itself.
TEST_P(AlteredRow, IsSeen) {
  const LayerCall call = generate_call(prefill_options(false));
  device::HostBackend backend({.threads = 1});
  device::PathRun whole = run_path(call, PathKind::fused, backend, whole_layer());
  ASSERT_TRUE(whole.report.ok());
  (whole.outputs.*GetParam().field).bytes().back() ^= std::byte{1};
  const auto rows =
      rows_by_themselves(call, whole.outputs, PathKind::fused, backend, whole_layer());
  EXPECT_FALSE(rows.invariant);
  EXPECT_TRUE(rows.first_difference.ends_with(GetParam().name)) << rows.first_difference;
}

INSTANTIATE_TEST_SUITE_P(Outputs, AlteredRow,
                         testing::Values(AlteredOutput{"q", &Outputs::q},
                                         AlteredOutput{"index_q", &Outputs::index_q},
                                         AlteredOutput{"topk_index", &Outputs::topk_index},
                                         AlteredOutput{"attn_output", &Outputs::attn_output}),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace zerodiff::tools
