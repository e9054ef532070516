// Launch lists: what check() refuses, how contents are kept, and replay.
#include "device/launch_list.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>

#include "fixtures/error.h"
#include "tests/device/simt_harness.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
namespace {

ZERODIFF_KERNEL(scale_to)(View<float> target, View<const float> source, float factor, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) target[i] = source[i] * factor;
}
ZERODIFF_KERNEL(accumulate)(View<float> total, View<const float> source, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) total[i] += source[i];
}

const KernelRegistry& kernels() {
  static const KernelRegistry registry(
      {ZERODIFF_HOST_KERNEL(scale_to), ZERODIFF_HOST_KERNEL(accumulate)});
  return registry;
}

}  // namespace
}  // namespace ZERODIFF_BACKEND

namespace {

constexpr std::int64_t kCount = 100;

Tensor counting_tensor() {
  Tensor tensor = Tensor::allocate(ElementType::float32, {kCount});
  std::iota(tensor.as<float>().begin(), tensor.as<float>().end(), 1.0f);
  return tensor;
}

// in * 2 -> scratch; total += scratch: three launches and every role.
LaunchList chain(const Tensor& total) {
  LaunchList list;
  const BufferId in = list.add_input("in", counting_tensor());
  const BufferId sum = list.add_inout("total", total);
  const BufferId twice = list.add_scratch("twice", ElementType::float32, kCount);
  const BufferId copy = list.add_output("copy", ElementType::float32, kCount);
  const Extent3 grid{.x = 4};
  const Extent3 block{.x = 32};
  list.add_launch({.kernel = "scale_to",
                   .grid = grid,
                   .block = block,
                   .arguments = {BufferArgument{twice}, BufferArgument{in}, 2.0f, kCount}});
  list.add_launch({.kernel = "accumulate",
                   .grid = grid,
                   .block = block,
                   .arguments = {BufferArgument{sum}, BufferArgument{twice}, kCount}});
  // From the second element on.
  list.add_launch({.kernel = "scale_to",
                   .grid = grid,
                   .block = block,
                   .arguments = {BufferArgument{copy}, BufferArgument{sum, 4}, 1.0f, kCount - 1}});
  return list;
}

std::vector<float> download(const ResidentLaunchList& resident, BufferId buffer) {
  std::vector<float> values(kCount);
  resident.download(buffer, std::as_writable_bytes(std::span(values)));
  return values;
}

TEST(LaunchList, RunsItsLaunchesInOrder) {
  const Tensor total = counting_tensor();
  const LaunchList list = chain(total);
  HostBackend backend({}, kernels());
  const auto resident = backend.allocate(list);
  resident->upload();
  const RunReport report = resident->run();
  ASSERT_TRUE(report.ok()) << all_faults(report);
  const std::vector<float> sum = download(*resident, list.find("total"));
  const std::vector<float> copy = download(*resident, list.find("copy"));
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(sum[i], 3 * static_cast<float>(i + 1));
  for (std::size_t i = 0; i + 1 < kCount; ++i) EXPECT_EQ(copy[i], sum[i + 1]);
}

TEST(LaunchList, UploadedAgainItReplaysTheSameBytes) {
  const Tensor total = counting_tensor();
  const LaunchList list = chain(total);
  HostBackend backend({.threads = 2}, kernels());
  const auto resident = backend.allocate(list);
  std::vector<std::vector<std::byte>> first;
  for (int round = 0; round < 3; ++round) {
    resident->upload();
    ASSERT_TRUE(resident->run().ok());
    std::vector<std::vector<std::byte>> all;
    for (std::uint32_t i = 0; i < list.buffers().size(); ++i) {
      resident->download({i}, all.emplace_back(kCount * sizeof(float)));
    }
    if (round == 0) first = all;
    EXPECT_EQ(all, first);
  }
}

// As a graph does: the buffers stay as the last replay left them, but for new metadata.
TEST(LaunchList, ReplayedWithoutUploadItGoesOnFromWhereItWas) {
  const Tensor total = counting_tensor();
  const LaunchList list = chain(total);
  HostBackend backend({}, kernels());
  const auto resident = backend.allocate(list);
  resident->upload();
  ASSERT_TRUE(resident->run().ok());
  const std::vector<float> tens(kCount, 10.0f);
  resident->upload(list.find("in"), std::as_bytes(std::span(tens)));
  const RunReport report = resident->run();
  ASSERT_TRUE(report.ok()) << all_faults(report);
  const std::vector<float> sum = download(*resident, list.find("total"));
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(sum[i], 3 * static_cast<float>(i + 1) + 20);
}

TEST(LaunchList, ReadsOfAnotherLaunchsOutputAreFineAndUnwrittenOnesAreNot) {
  const Tensor total = counting_tensor();
  LaunchList list;
  const BufferId sum = list.add_inout("total", total);
  const BufferId twice = list.add_scratch("twice", ElementType::float32, kCount);
  list.add_launch({.kernel = "scale_to",
                   .grid = {.x = 4},
                   .block = {.x = 32},
                   .arguments = {BufferArgument{twice}, BufferArgument{sum}, 2.0f, kCount - 1}});
  list.add_launch({.kernel = "accumulate",
                   .grid = {.x = 4},
                   .block = {.x = 32},
                   .arguments = {BufferArgument{sum}, BufferArgument{twice}, kCount}});
  HostBackend backend({}, kernels());
  const auto resident = backend.allocate(list);
  resident->upload();
  const RunReport report = resident->run();
  ASSERT_EQ(report.faults.size(), 1u) << all_faults(report);
  EXPECT_EQ(report.faults[0].kind, FaultKind::unwritten_read);
  EXPECT_EQ(report.faults[0].launch, 1u);
  EXPECT_EQ(report.faults[0].kernel, "accumulate");
  EXPECT_EQ(report.faults[0].block, (Index3{.x = 3}));
  EXPECT_EQ(report.faults[0].thread, (Index3{.x = 3}));
  EXPECT_EQ(report.faults[0].detail, "read of buffer twice, element 99, which nobody has written");
}

TEST(LaunchList, OwnsContentsThatAreMovedIn) {
  LaunchList list;
  list.add_input("a", counting_tensor());
  for (char name = 'b'; name <= 'z'; ++name) {
    list.add_input(std::string(1, name), counting_tensor());
  }
  LaunchList moved = std::move(list);
  const auto bytes = moved.buffer(moved.find("a")).initial.bytes;
  const Tensor expected = counting_tensor();
  ASSERT_EQ(bytes.size(), expected.size_bytes());
  EXPECT_EQ(std::memcmp(bytes.data(), expected.bytes().data(), bytes.size()), 0);
}

// One row a way to spoil a list that is right.
struct WrongList {
  std::string name;
  void (*spoil)(LaunchList&);
  std::string message;
};
void PrintTo(const WrongList& wrong, std::ostream* os) {
  *os << wrong.name;
}

Launch launch_with(Extent3 grid, Extent3 block, std::int64_t lds_bytes, BufferArgument argument) {
  return {.kernel = "k",
          .grid = grid,
          .block = block,
          .lds_bytes = lds_bytes,
          .arguments = {std::int32_t{1}, argument}};
}

class LaunchListCheck : public testing::TestWithParam<WrongList> {};

TEST_P(LaunchListCheck, RefusesTheList) {
  LaunchList list;
  list.add_output("out", ElementType::float16, 8);
  ASSERT_NO_THROW(list.check());
  GetParam().spoil(list);
  try {
    list.check();
    FAIL() << "passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(std::string(error.what()), GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Buffers, LaunchListCheck,
    testing::Values(
        WrongList{"NameTwice", [](LaunchList& l) { l.add_output("out", ElementType::float32, 1); },
                  "launch list: buffer name: found out twice, wanted distinct names"},
        WrongList{"NegativeCount",
                  [](LaunchList& l) { l.add_output("b", ElementType::float32, -1); },
                  "buffer b: element count: found -1, wanted 0 to 281474976710656"},
        WrongList{"HugeCount",
                  [](LaunchList& l) {
                    l.add_output("b", ElementType::int64, LaunchList::kMaxElements + 1);
                  },
                  "buffer b: element count: found 281474976710657, wanted 0 to 281474976710656"},
        WrongList{"ContentTooShort",
                  [](LaunchList& l) {
                    static constexpr std::array<std::byte, 7> kBytes{};
                    l.add_buffer(
                        {.name = "b",
                         .count = 2,
                         .initial = {.kind = InitialContent::Kind::bytes, .bytes = kBytes}});
                  },
                  "buffer b: initial content: found 7 bytes, wanted 8"},
        WrongList{"InputWithoutContent",
                  [](LaunchList& l) { l.add_buffer({.name = "b", .count = 2}); },
                  "buffer b: initial content: found none, wanted some: it is an input"}),
    [](const auto& row) { return row.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Launches, LaunchListCheck,
    testing::Values(
        WrongList{"EmptyGrid",
                  [](LaunchList& l) { l.add_launch(launch_with({.y = 0}, {}, 0, {})); },
                  "launch 0 (k): grid: found 1x0x1, wanted 1 to 2147483647 in all"},
        WrongList{"GridWrapsAround64Bits",
                  [](LaunchList& l) {
                    l.add_launch(launch_with({.x = 1u << 31, .y = 1u << 31, .z = 4}, {}, 0, {}));
                  },
                  "launch 0 (k): grid: found 2147483648x2147483648x4, wanted 1 to 2147483647 in "
                  "all"},
        WrongList{"BlockTooLarge",
                  [](LaunchList& l) { l.add_launch(launch_with({}, {.x = 41, .y = 25}, 0, {})); },
                  "launch 0 (k): block: found 41x25x1, wanted 1 to 1024 in all"},
        WrongList{"NegativeLds", [](LaunchList& l) { l.add_launch(launch_with({}, {}, -4, {})); },
                  "launch 0 (k): LDS bytes: found -4, wanted at least 0"},
        WrongList{"NoSuchBuffer",
                  [](LaunchList& l) { l.add_launch(launch_with({}, {}, 0, {{1}})); },
                  "launch 0 (k) argument 1: buffer: found 1, wanted less than 1"},
        WrongList{"OffsetBetweenElements",
                  [](LaunchList& l) {
                    l.add_launch(launch_with({}, {}, 0, {{0}, 3}));
                  },
                  "launch 0 (k) argument 1: byte offset into out: found 3, wanted a multiple of 2 "
                  "up to 16"},
        WrongList{"OffsetBeyondTheEnd",
                  [](LaunchList& l) {
                    l.add_launch(launch_with({}, {}, 0, {{0}, 18}));
                  },
                  "launch 0 (k) argument 1: byte offset into out: found 18, wanted a multiple of 2 "
                  "up to 16"}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace zerodiff::device
