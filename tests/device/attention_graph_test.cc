// A launch list of fixed shape, replayed with other metadata, as a graph is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/host/host_backend.h"
#include "device/paths/run_path.h"
#include "tests/device/attention_test_support.h"

namespace zerodiff::device {
namespace {

constexpr std::int64_t kCapacity = 8;
constexpr std::byte kUnwritten{0xC4};

GeneratorOptions graph_options() {
  GeneratorOptions options = attention_options(5, 1, 41);
  options.config.batch_mode = BatchMode::graph;
  options.config.phase = Phase::decode;
  options.config.kv_storage = KvStorage::block_contiguous;
  options.config.num_tokens = 6;
  options.config.topk = 3;
  options.capacity = kCapacity;
  options.num_requests = 6;
  options.max_context = 900;
  options.max_context_blocks = 9;
  return options;
}

std::span<const std::byte> bytes_of(const std::vector<std::int32_t>& values) {
  return std::as_bytes(std::span(values));
}

std::vector<std::byte> content_of(const PathLaunches& launches, const ResidentLaunchList& resident,
                                  std::string_view name) {
  const BufferId buffer = launches.list.find(name);
  std::vector<std::byte> bytes(static_cast<std::size_t>(launches.list.buffer(buffer).size_bytes()));
  resident.download(buffer, bytes);
  return bytes;
}

PathOptions path_options() {
  PathOptions options;
  options.attention = AttentionOptions{.keep_index_score = true, .output_fill = kUnwritten};
  return options;
}

constexpr std::string_view kGraphBuffers[] = {"index_score", "topk_index", "sparse_block_table",
                                              "sparse_context_lens", "attn_output"};

// Rows below `live` as in `whole`, the others never written.
void expect_live_rows(const std::vector<std::byte>& replayed, const std::vector<std::byte>& whole,
                      std::int64_t live, const std::string& what) {
  ASSERT_EQ(replayed.size(), whole.size()) << what;
  const std::size_t pitch = whole.size() / kCapacity;
  const auto split = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(live) * pitch);
  EXPECT_TRUE(std::equal(replayed.begin(), replayed.begin() + split, whole.begin())) << what;
  EXPECT_TRUE(std::all_of(replayed.begin() + split, replayed.end(), [](std::byte byte) {
    return byte == kUnwritten;
  })) << what;
}

class GraphReplay : public testing::TestWithParam<int> {};

// Fewer requests than the list was made for: their rows are what they were, others stay unwritten.
TEST_P(GraphReplay, WithFewerRowsTouchesTheseAlone) {
  const LayerCall call = generate_call(graph_options());
  const std::int32_t live = GetParam();
  for (const PathKind kind : kPathKinds) {
    HostBackend backend({.threads = 1});
    const PathLaunches launches = path_launches(kind, call, path_options());
    const std::unique_ptr<ResidentLaunchList> resident = backend.allocate(launches.list);
    resident->upload();
    ASSERT_TRUE(resident->run().ok());
    std::vector<std::vector<std::byte>> whole;
    for (const std::string_view name : kGraphBuffers) {
      whole.push_back(content_of(launches, *resident, name));
    }
    std::vector<std::int32_t> starts(call.query_start_loc.as<std::int32_t>().begin(),
                                     call.query_start_loc.as<std::int32_t>().end());
    for (std::int32_t& start : starts) start = std::min(start, live);
    resident->upload();
    resident->upload(launches.list.find("num_tokens"), bytes_of({live}));
    resident->upload(launches.list.find("query_start_loc"), bytes_of(starts));
    ASSERT_TRUE(resident->run().ok());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      expect_live_rows(content_of(launches, *resident, kGraphBuffers[i]), whole[i], live,
                       std::string(name_of(kind)) + " " + std::string(kGraphBuffers[i]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, GraphReplay, testing::Values(0, 1, 3, 6));

// Grids must not know how many rows are scheduled, nor where: a graph keeps them.
TEST(GraphShape, DependsOnTheCapacityAlone) {
  const LayerCall full = generate_call(graph_options());
  LayerCall other = full;
  other.config.num_tokens = 2;
  std::ranges::fill(other.positions.as<std::int64_t>(), 0);
  for (const PathKind kind : kPathKinds) {
    const PathLaunches a = path_launches(kind, full, path_options());
    const PathLaunches b = path_launches(kind, other, path_options());
    ASSERT_EQ(a.list.launches().size(), b.list.launches().size());
    for (std::size_t i = 0; i < a.list.launches().size(); ++i) {
      EXPECT_EQ(a.list.launches()[i].kernel, b.list.launches()[i].kernel);
      EXPECT_EQ(a.list.launches()[i].grid, b.list.launches()[i].grid);
      EXPECT_EQ(a.list.launches()[i].arguments, b.list.launches()[i].arguments);
    }
  }
}

// From the score buffer on, the fused path is two kernels and one for attention.
TEST(GraphShape, IsThreeLaunchesOnTheFusedPath) {
  const LayerCall call = generate_call(graph_options());
  const PathLaunches launches = path_launches(PathKind::fused, call, path_options());
  std::vector<std::string> kernels;
  for (const Launch& launch : launches.list.launches()) kernels.push_back(launch.kernel);
  EXPECT_EQ(kernels, (std::vector<std::string>{"fused_insert_bf16_auto_auto", "index_score_bf16_r4",
                                               "fused_topk", "fused_attention_bf16_auto_h8"}));
}

}  // namespace
}  // namespace zerodiff::device
