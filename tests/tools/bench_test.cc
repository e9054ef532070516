// `zerodiff bench` on the host device: shapes, the work of stages, and reports.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "device/host/host_backend.h"
#include "device/paths/run_path.h"
#include "fixtures/error.h"
#include "fixtures/layer_call_checks.h"
#include "reference/layer.h"
#include "tools/bench_call.h"
#include "tools/bench_shape.h"
#include "tools/bench_work.h"
#include "tools/print_bench.h"

namespace zerodiff::tools {
namespace {

TEST(BenchShapeText, SetsWhatItNames) {
  const BenchShape shape = parse_bench_shape(
      "tokens=48,requests=3,heads=8,kv_heads=2,index_heads=2,dtype=fp16,cache=fp8,slots=random,"
      "rotary=32,seed=9,storage=block_contiguous");
  EXPECT_EQ(shape.options.config.num_tokens, 48);
  EXPECT_EQ(shape.options.num_requests, 3);
  EXPECT_EQ(shape.options.config.num_heads, 8);
  EXPECT_EQ(shape.options.config.rotary_dim, 32);
  EXPECT_EQ(shape.options.model_dtype, ElementType::float16);
  EXPECT_EQ(shape.options.config.kv_cache_dtype, ElementType::float8_e4m3fn);
  EXPECT_EQ(shape.options.config.index_cache_dtype, ElementType::float8_e4m3fn);
  EXPECT_EQ(shape.options.config.kv_storage, KvStorage::block_contiguous);
  EXPECT_EQ(shape.slots, SlotOrder::random);
  EXPECT_FALSE(shape.options.with_attention_metadata);
}

TEST(BenchShapeText, WithAContextIsTheWholeLayer) {
  const BenchShape shape = parse_bench_shape("tokens=2,requests=2,phase=decode,context=200");
  EXPECT_TRUE(shape.options.with_attention_metadata);
  EXPECT_EQ(shape.slots, SlotOrder::table);
  const LayerCall call = make_bench_call(shape);
  EXPECT_NO_THROW(check_layer_call(call));
  EXPECT_EQ(call.positions.as<std::int64_t>()[1], 200);
}

struct WrongShape {
  const char* name;
  const char* text;
  const char* found;  // part of the message
};
void PrintTo(const WrongShape& row, std::ostream* out) {
  *out << row.name;
}
class Rejected : public testing::TestWithParam<WrongShape> {};

TEST_P(Rejected, WithOneClearLine) {
  try {
    parse_bench_shape(GetParam().text);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find(GetParam().found), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Rejected,
                         testing::ValuesIn(std::vector<WrongShape>{
                             {"key", "token=4", "unknown key 'token'"},
                             {"no_value", "tokens", "wanted key=value"},
                             {"not_a_number", "tokens=many", "tokens=many"},
                             {"no_tokens", "tokens=0", "a number from 1"},
                             {"dtype", "dtype=fp32", "bf16 or fp16"},
                             {"other_16_bits", "dtype=fp16,cache=bf16", "fp16 (the dtype) or fp8"},
                             {"slots", "slots=sorted", "contiguous or random"},
                             {"phase", "phase=train", "phase=train"},
                         }),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(BenchCall, HasTheSlotsThatWereAskedFor) {
  const LayerCall contiguous = make_bench_call(parse_bench_shape("tokens=300,heads=2"));
  const LayerCall random = make_bench_call(parse_bench_shape("tokens=300,heads=2,slots=random"));
  EXPECT_NO_THROW(check_layer_call(contiguous));
  EXPECT_NO_THROW(check_layer_call(random));
  const auto in_order = contiguous.slot_mapping.as<std::int64_t>();
  const auto anywhere = random.slot_mapping.as<std::int64_t>();
  EXPECT_TRUE(std::ranges::is_sorted(in_order));
  EXPECT_FALSE(std::ranges::is_sorted(anywhere));
  EXPECT_EQ(std::set(in_order.begin(), in_order.end()), std::set(anywhere.begin(), anywhere.end()));
}

// 3 tokens, 2 query heads, 1 kv head, bf16: counted by hand.
TEST(BenchWork, IsWhatShapesImply) {
  const LayerCall call = make_bench_call(parse_bench_shape("tokens=3,heads=2"));
  const Outputs reference = reference::run_layer(call);
  constexpr std::int64_t kHead = 256;  // bytes
  // 2 q, k, v, index_q, index_k in; a RoPE row of 128 bytes; q, index_q, K, V and index K out.
  EXPECT_EQ(work_of("insertion", call, reference).bytes, 3 * (6 * kHead + 128 + 6 * kHead));
  // All but v in; q and index_q out; k and index_k in place.
  EXPECT_EQ(work_of("qk_norm_rope", call, reference).bytes,
            3 * (5 * kHead + 128 + 3 * kHead + 2 * kHead));
  EXPECT_EQ(work_of("slot_mapping", call, reference).bytes, 3 * 24);
  EXPECT_EQ(work_of("reshape_and_cache", call, reference).bytes, 3 * (4 * kHead + 8));
  EXPECT_EQ(work_of("index_cache_insert", call, reference).bytes, 3 * (2 * kHead + 8));
}

// Two requests of one row at position 200, 2 query heads: all 201 tokens are attended to.
TEST(BenchWork, CountsFmasOfDotProducts) {
  const LayerCall call =
      make_bench_call(parse_bench_shape("tokens=2,requests=2,heads=2,phase=decode,context=200"));
  const Outputs reference = reference::run_layer(call);
  EXPECT_EQ(work_of("sparse_attention", call, reference).fmas, 2 * 201 * 2 * 2 * 128);
  EXPECT_EQ(work_of("index_score", call, reference).fmas, 2 * 201 * 128);
  EXPECT_EQ(work_of("insertion", call, reference).fmas, 0);
}

std::vector<std::string> stages_of(const BenchReport& report, const std::string& path) {
  std::vector<std::string> stages;
  for (const StageTime& stage : report.stages) {
    if (stage.path == path) stages.push_back(stage.stage);
  }
  return stages;
}

TEST(Bench, MeasuresEveryStageOfBothPaths) {
  const LayerCall call =
      make_bench_call(parse_bench_shape("tokens=2,requests=2,heads=2,phase=decode,context=200"));
  device::HostBackend backend({.threads = 1});
  const BenchReport report = bench_call(call, backend, {.runs = 3, .threads = 1});
  ASSERT_EQ(report.difference, "");
  EXPECT_EQ(report.compared_outputs, 18);
  EXPECT_EQ(report.clock, "wall clock");
  EXPECT_EQ(
      stages_of(report, "unfused"),
      (std::vector<std::string>{
          "qk_norm_rope", "slot_mapping", "reshape_and_cache", "index_cache_insert", "index_score",
          "index_topk", "sparse_block_table", "sparse_attention", "insertion", "whole path"}));
  EXPECT_EQ(stages_of(report, "fused"),
            (std::vector<std::string>{"insertion", "index_score", "index_topk+sparse_block_table",
                                      "sparse_attention", "whole path"}));
  for (const StageTime& stage : report.stages) {
    EXPECT_GT(stage.time.median, 0) << stage.stage;
    EXPECT_GE(stage.time.p95, stage.time.median) << stage.stage;
    EXPECT_GT(stage.bytes, 0) << stage.stage;
  }
  EXPECT_GT(report.copy.median, 0);
  EXPECT_GT(fused_gain(report, "insertion"), 0);
  const std::string text = print_bench(report, "host", Painter(false));
  EXPECT_NE(text.find("wall clock"), std::string::npos) << text;
  EXPECT_NE(text.find("reference = unfused = fused"), std::string::npos) << text;
}

// A backend whose kernels leave a wrong byte: what is wrong must not be measured.
class WrongList final : public device::ResidentLaunchList {
 public:
  explicit WrongList(std::unique_ptr<device::ResidentLaunchList> list) : list_(std::move(list)) {}
  void upload() override { list_->upload(); }
  void upload(device::BufferId buffer, std::span<const std::byte> content) override {
    list_->upload(buffer, content);
  }
  device::RunReport run() override { return list_->run(); }
  void download(device::BufferId buffer, std::span<std::byte> content) const override {
    list_->download(buffer, content);
    content.front() ^= std::byte{1};
  }
  void download_part(device::BufferId buffer, std::int64_t offset,
                     std::span<std::byte> content) const override {
    list_->download_part(buffer, offset, content);
  }
  double time_launches(std::size_t first, std::size_t last) override {
    return list_->time_launches(first, last);
  }
  double time_copy(device::BufferId from, device::BufferId to) override {
    return list_->time_copy(from, to);
  }

 private:
  std::unique_ptr<device::ResidentLaunchList> list_;
};

class WrongBackend final : public device::Backend {
 public:
  std::string_view name() const override { return host_.name(); }
  int wave_width() const override { return host_.wave_width(); }
  device::DeviceTraits traits() const override { return host_.traits(); }
  std::unique_ptr<device::ResidentLaunchList> allocate(const device::LaunchList& list) override {
    return std::make_unique<WrongList>(host_.allocate(list));
  }

 private:
  device::HostBackend host_{{.threads = 1}};
};

TEST(Bench, MeasuresNothingThatIsWrong) {
  const LayerCall call = make_bench_call(parse_bench_shape("tokens=3,heads=2"));
  WrongBackend backend;
  const BenchReport report = bench_call(call, backend, {.runs = 3, .threads = 1});
  EXPECT_NE(report.difference, "");
  EXPECT_TRUE(report.stages.empty());
  const std::string text = print_bench(report, "host", Painter(false));
  EXPECT_NE(text.find("not measured"), std::string::npos) << text;
}

}  // namespace
}  // namespace zerodiff::tools
