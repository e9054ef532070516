// The host backend around the kernels: what it refuses, guard bands, stamps over many launches,
// pools larger than memory, which faults it reports.
#include <sys/resource.h>

#include <cstring>

#include "fixtures/error.h"
#include "tests/device/simt_harness.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
namespace {

ZERODIFF_TEST_KERNEL(copy) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}

// Odd blocks step outside, each at a thread of its own.
ZERODIFF_TEST_KERNEL(odd_blocks_fail) {
  if (blockIdx.x % 2 == 1 && threadIdx.x == blockIdx.x) FAULTY(out[n] = 0.0f);
}

ZERODIFF_TEST_KERNEL(write_after_the_end) {
  if (blockIdx.x == 0 && threadIdx.x == 0) out[n] = 0.0f;
}
ZERODIFF_TEST_KERNEL(write_before_the_start) {
  if (blockIdx.x == 0 && threadIdx.x == 0) out[-1] = 0.0f;
}

ZERODIFF_KERNEL_BOUNDS(bounded, 64)(View<uint8_t> bytes, int64_t index, float value) {
  if (threadIdx.x == 0) bytes[index] = static_cast<uint8_t>(value);
}

ZERODIFF_KERNEL(add_one)(View<int32_t> counters) {
  counters[threadIdx.x] += 1;
}

ZERODIFF_KERNEL(copy_byte)(View<uint8_t> target, View<const uint8_t> source, int64_t index) {
  if (threadIdx.x == 0) target[index] = source[index];
}

const KernelRegistry& kernels() {
  static const KernelRegistry registry({
      ZERODIFF_HOST_KERNEL(copy),
      ZERODIFF_HOST_KERNEL(odd_blocks_fail),
      ZERODIFF_HOST_KERNEL(write_after_the_end),
      ZERODIFF_HOST_KERNEL(write_before_the_start),
      ZERODIFF_HOST_KERNEL(bounded),
      ZERODIFF_HOST_KERNEL(add_one),
      ZERODIFF_HOST_KERNEL(copy_byte),
  });
  return registry;
}

}  // namespace
}  // namespace ZERODIFF_BACKEND

namespace {

TEST(SimtBackend, ReportsTheLowestFaultyBlocksInOrder) {
  const SimtShape shape{.grid = {.x = 100}, .block = {.x = 128}};
  for (const unsigned threads : {1u, 2u, 5u}) {
    const SimtRun run =
        run_simt(kernels(), "odd_blocks_fail", shape, {.threads = threads, .max_faults = 3});
    ASSERT_EQ(run.report.faults.size(), 3u) << all_faults(run.report);
    for (std::uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(run.report.faults[i].block, (Index3{.x = 2 * i + 1}));
      EXPECT_EQ(run.report.faults[i].thread, (Index3{.x = 2 * i + 1}));
      EXPECT_EQ(run.report.faults[i].line, faulty_line.load());
    }
  }
}

TEST(SimtBackend, FindsDamagedGuardBandsWhenAccessesAreNotChecked) {
  const SimtShape shape{.grid = {.x = 2}, .block = {.x = 128}};
  for (const auto& [kernel, detail] :
       {std::pair{"write_after_the_end", "byte 1024 of buffer out of 1024 bytes has changed"},
        std::pair{"write_before_the_start", "byte -4 of buffer out of 1024 bytes has changed"}}) {
    const SimtRun run = run_simt(kernels(), kernel, shape, {.checked = false});
    ASSERT_EQ(run.report.faults.size(), 1u) << all_faults(run.report);
    EXPECT_EQ(run.report.faults[0].kind, FaultKind::guard_band);
    EXPECT_EQ(run.report.faults[0].kernel, kernel);
    EXPECT_EQ(run.report.faults[0].detail, detail);
  }
  const SimtRun intact = run_simt(kernels(), "copy", shape, {.checked = false});
  EXPECT_TRUE(intact.report.ok()) << all_faults(intact.report);
  EXPECT_EQ(intact.out, counting_input(256));
}

// One row a way to bind a launch wrongly: a change to a launch that is right.
struct WrongLaunch {
  std::string name;
  void (*spoil)(Launch&);
  std::string message;
};
void PrintTo(const WrongLaunch& wrong, std::ostream* os) {
  *os << wrong.name;
}

LaunchList bounded_list(void (*spoil)(Launch&)) {
  LaunchList list;
  list.add_output("bytes", ElementType::float8_e4m3fn, 100);
  list.add_output("halves", ElementType::float16, 100);
  list.add_input("given", Tensor::zeros(ElementType::float8_e4m3fn, {100}));
  Launch launch{.kernel = "bounded",
                .block = {.x = 64},
                .arguments = {BufferArgument{{0}}, std::int64_t{99}, 2.0f}};
  spoil(launch);
  list.add_launch(std::move(launch));
  return list;
}

class SimtBinding : public testing::TestWithParam<WrongLaunch> {};

TEST_P(SimtBinding, RefusesTheLaunch) {
  HostBackend backend({.threads = 1}, kernels());
  const LaunchList list = bounded_list(GetParam().spoil);
  try {
    backend.allocate(list);
    FAIL() << "allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(std::string(error.what()), GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, SimtBinding,
    testing::Values(
        WrongLaunch{"UnknownKernel", [](Launch& l) { l.kernel = "bound"; },
                    "launch 0 (bound): kernel: found bound, wanted a host kernel"},
        WrongLaunch{"BlockBeyondItsBounds", [](Launch& l) { l.block = {.x = 13, .y = 5}; },
                    "launch 0 (bounded): threads of a block: found 65, wanted at most 64"},
        WrongLaunch{"TooManyBlocks", [](Launch& l) { l.grid = {.x = 1u << 20, .y = 65}; },
                    "launch 0 (bounded): blocks: found 68157440, wanted at most 67108864 on the "
                    "host"},
        WrongLaunch{"TooMuchLds", [](Launch& l) { l.lds_bytes = 65537; },
                    "launch 0 (bounded): LDS bytes: found 65537, wanted at most 65536"},
        WrongLaunch{"OneArgumentFewer", [](Launch& l) { l.arguments.pop_back(); },
                    "launch 0 (bounded): arguments: found 2, wanted 3"},
        WrongLaunch{"ScalarOfAnotherWidth", [](Launch& l) { l.arguments[1] = std::int32_t{5}; },
                    "launch 0 (bounded): argument 1: found int32_t 5, wanted int64_t"},
        WrongLaunch{"ScalarForABuffer", [](Launch& l) { l.arguments[0] = 1.0f; },
                    "launch 0 (bounded): argument 0: found float 1.000000, wanted View<uint8_t>"},
        WrongLaunch{"NullForAScalar", [](Launch& l) { l.arguments[2] = NullArgument{}; },
                    "launch 0 (bounded): argument 2: found null, wanted float"},
        WrongLaunch{"BufferOfAnotherType", [](Launch& l) { l.arguments[0] = BufferArgument{{1}}; },
                    "launch 0 (bounded): argument 0: found output buffer halves of float16, "
                    "wanted View<uint8_t>"},
        WrongLaunch{"InputForAWritableView",
                    [](Launch& l) { l.arguments[0] = BufferArgument{{2}}; },
                    "launch 0 (bounded): argument 0: found input buffer given of float8_e4m3fn, "
                    "wanted View<uint8_t>"}),
    [](const auto& row) { return row.param.name; });

TEST(SimtBackend, RunsTheLaunchThatTheRowsSpoil) {
  HostBackend backend({.threads = 1}, kernels());
  const LaunchList list = bounded_list([](Launch&) {});
  const auto resident = backend.allocate(list);
  resident->upload();
  ASSERT_TRUE(resident->run().ok());
  std::vector<std::byte> bytes(100);
  resident->download({0}, bytes);
  EXPECT_EQ(bytes[99], std::byte{2});
  EXPECT_EQ(bytes[98], std::byte{0xCB}) << "what nobody wrote is recognisable";
}

// Element stamps number launches with ten bits; what was written before they start anew stays so,
// and a race of one launch is not seen in another.
TEST(SimtBackend, StampsSurviveThousandsOfLaunches) {
  Tensor zeros = Tensor::zeros(ElementType::int32, {32});
  LaunchList list;
  const BufferId counters = list.add_inout("counters", zeros);
  for (int i = 0; i < 2100; ++i) {
    list.add_launch(
        {.kernel = "add_one", .block = {.x = 32}, .arguments = {BufferArgument{counters}}});
  }
  HostBackend backend({.threads = 1}, kernels());
  const auto resident = backend.allocate(list);
  resident->upload();
  const RunReport report = resident->run();
  ASSERT_TRUE(report.ok()) << all_faults(report);
  std::vector<std::int32_t> values(32);
  resident->download(counters, std::as_writable_bytes(std::span(values)));
  EXPECT_EQ(values, std::vector<std::int32_t>(32, 2100));
}

// The last element of a pool of more than 2^31, mapped and checked but not filled.
TEST(SimtBackend, APoolBeyond32BitsCostsOnlyWhatIsTouched) {
  constexpr std::int64_t kCount = (std::int64_t{1} << 31) + 100;
  LaunchList list;
  const BufferId pool =
      list.add_buffer({.name = "pool",
                       .type = ElementType::float8_e4m3fn,
                       .count = kCount,
                       .role = BufferRole::inout,
                       .initial = {.kind = InitialContent::Kind::unwritten, .fill = std::byte{0}}});
  const BufferId byte = list.add_output("byte", ElementType::float8_e4m3fn, 1);
  list.add_launch({.kernel = "bounded",
                   .block = {.x = 64},
                   .arguments = {BufferArgument{pool}, kCount - 1, 77.0f}});
  list.add_launch(
      {.kernel = "copy_byte",
       .block = {.x = 64},
       .arguments = {BufferArgument{byte}, BufferArgument{pool, kCount - 1}, std::int64_t{0}}});
  HostBackend backend({}, kernels());
  const auto resident = backend.allocate(list);
  resident->upload();
  const RunReport report = resident->run();
  ASSERT_TRUE(report.ok()) << all_faults(report);
  std::byte value{};
  resident->download(byte, {&value, 1});
  EXPECT_EQ(value, std::byte{77});
  rusage usage{};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, 1024 * 1024) << "KiB";
}

TEST(SimtBackend, APoolBeyond32BitsRemembersWhatNobodyWrote) {
  constexpr std::int64_t kCount = (std::int64_t{1} << 31) + 100;
  LaunchList list;
  const BufferId pool = list.add_buffer({.name = "pool",
                                         .type = ElementType::float8_e4m3fn,
                                         .count = kCount,
                                         .role = BufferRole::scratch,
                                         .initial = {.fill = std::byte{0}}});
  const BufferId byte = list.add_output("byte", ElementType::float8_e4m3fn, 1);
  list.add_launch(
      {.kernel = "copy_byte",
       .block = {.x = 64},
       .arguments = {BufferArgument{byte}, BufferArgument{pool, kCount - 1}, std::int64_t{0}}});
  HostBackend backend({}, kernels());
  const auto resident = backend.allocate(list);
  resident->upload();
  const RunReport report = resident->run();
  ASSERT_EQ(report.faults.size(), 1u) << all_faults(report);
  EXPECT_EQ(report.faults[0].kind, FaultKind::unwritten_read);
  EXPECT_EQ(report.faults[0].detail,
            "read of buffer pool, element 2147483747, which nobody has written");
}

}  // namespace
}  // namespace zerodiff::device
