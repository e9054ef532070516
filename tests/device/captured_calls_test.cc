// Captured calls through the own paths: reference = unfused = fused in every output.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <tuple>

#include "device/host/host_backend.h"
#include "device/paths/run_path.h"
#include "fixtures/capture.h"
#include "reference/layer.h"
#include "tests/oracle/outputs_difference.h"

namespace zerodiff::device {
namespace {

class CapturedCall : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(CapturedCall, HasZeroDifferenceBetweenReferenceUnfusedAndFused) {
  const auto& [name, wave_width] = GetParam();
  const CaptureReader reader("fixtures/captured/" + std::string(name) + ".h5");
  const LayerCall& call = reader.call();
  const Outputs reference = reference::run_insertion(call);
  HostBackend backend({.wave_width = wave_width});
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    const PathRun run = run_path(call, kind, backend);
    ASSERT_TRUE(run.report.ok()) << to_string(run.report.faults.front());
    EXPECT_EQ(oracle::first_difference(call, reference, run.outputs), "") << name_of(kind);
  }
}

INSTANTIATE_TEST_SUITE_P(Small, CapturedCall,
                         testing::Combine(testing::Values("m3_small_decode_fp8",
                                                          "m3_small_graph_fp8_scaled",
                                                          "m3_small_prefill_bf16"),
                                          testing::Values(32, 64)),
                         [](const auto& row) {
                           return std::string(std::get<0>(row.param)) + "_wave" +
                                  std::to_string(std::get<1>(row.param));
                         });

}  // namespace
}  // namespace zerodiff::device
