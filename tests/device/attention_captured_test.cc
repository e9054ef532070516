// Real captures: the selections and tables that production kernels made of their own scores,
// against ours of the same inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "fixtures/capture.h"
#include "tests/device/attention_test_support.h"

namespace zerodiff::device {
namespace {

struct CapturedPath {
  std::string name;
  std::string file;
  std::string path;
};

const CapturedPath kCapturedPaths[] = {
    {"decode_fp8_atom", "m3_small_decode_fp8.h5", "atom_fused"},
    {"prefill_bf16_atom", "m3_small_prefill_bf16.h5", "atom_fused"},
    {"graph_fp8_scaled_torch", "m3_small_graph_fp8_scaled.h5", "torch_unfused"},
};

AttentionCase captured_case(const CapturedPath& of) {
  CaptureReader reader(std::filesystem::path("fixtures/captured") / of.file);
  return {reader.call(), reader.read_path(of.path)};
}

class Captured : public testing::TestWithParam<CapturedPath> {};

// The order of a selection is the kernel's own affair (numerics.md section 14).
TEST_P(Captured, SelectionsHoldTheSameBlocks) {
  const AttentionCase of = captured_case(GetParam());
  const auto topk = static_cast<std::size_t>(of.call.config.topk);
  for (const PathKind kind : kPathKinds) {
    const Outputs outputs = run_stages(of, kind, {.last_stage = AttentionStage::index_topk});
    const auto ours = outputs.topk_index.as<std::int32_t>();
    const auto theirs = of.inserted.topk_index.as<std::int32_t>();
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < ours.size(); i += topk) {
      std::vector<std::int32_t> a(ours.begin() + static_cast<std::ptrdiff_t>(i),
                                  ours.begin() + static_cast<std::ptrdiff_t>(i + topk));
      std::vector<std::int32_t> b(theirs.begin() + static_cast<std::ptrdiff_t>(i),
                                  theirs.begin() + static_cast<std::ptrdiff_t>(i + topk));
      std::ranges::sort(a);
      std::ranges::sort(b);
      EXPECT_EQ(a, b) << "row " << i / topk;
    }
  }
}

TEST_P(Captured, TablesAreTheSameFromTheSameSelection) {
  const AttentionCase of = captured_case(GetParam());
  const Outputs outputs = run_stages(of, PathKind::unfused,
                                     {.first_stage = AttentionStage::sparse_block_table,
                                      .last_stage = AttentionStage::sparse_block_table});
  EXPECT_TRUE(identical(outputs.sparse_block_table, of.inserted.sparse_block_table));
  EXPECT_TRUE(identical(outputs.sparse_context_lens, of.inserted.sparse_context_lens));
}

INSTANTIATE_TEST_SUITE_P(Paths, Captured, testing::ValuesIn(kCapturedPaths),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace zerodiff::device
