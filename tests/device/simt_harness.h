// Runs kernels of a test's own on the host backend.
//
// Test kernels live in an unnamed namespace inside zerodiff::device::host and take
//   (View<float> out, View<const float> in, View<float> scratch, int32_t n)
// where `in` holds n values, and `out` and `scratch` have room for n and start unwritten.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/host/host_backend.h"
#include "device/kernel_fault.h"
#include "device/launch_list.h"
#include "device/platform/platform.hip.h"
#include "fixtures/tensor.h"

namespace zerodiff::device {

#define ZERODIFF_TEST_KERNEL(name)                                          \
  ZERODIFF_KERNEL(name)                                                     \
  ([[maybe_unused]] View<float> out, [[maybe_unused]] View<const float> in, \
   [[maybe_unused]] View<float> scratch, [[maybe_unused]] int32_t n)
// The two registry entries of a broken kernel and its twin.
#define ZERODIFF_TEST_PAIR(name) ZERODIFF_HOST_KERNEL(name), ZERODIFF_HOST_KERNEL(name##_fixed)

// Marks the expression of a broken kernel that must be blamed: FAULTY(out[n] = 0).
inline std::atomic<std::uint32_t> faulty_line{0};
#define FAULTY(...) (::zerodiff::device::faulty_line = __LINE__, __VA_ARGS__)

struct SimtRun {
  RunReport report;
  std::vector<float> out;
};

struct SimtShape {
  Extent3 grid{};
  Extent3 block{};
  std::int32_t n = 256;
  std::int64_t lds_bytes = 0;
};

inline std::vector<float> counting_input(std::int32_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

inline std::span<const std::byte> bytes_of(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

// The list of one launch of `kernel`; `input` must outlive it.
inline LaunchList simt_list(const std::string& kernel, const SimtShape& shape,
                            const std::vector<float>& input) {
  LaunchList list;
  const BufferId in =
      list.add_buffer({.name = "in",
                       .count = shape.n,
                       .role = BufferRole::input,
                       .initial = {.kind = InitialContent::Kind::bytes, .bytes = bytes_of(input)}});
  const BufferId out = list.add_output("out", ElementType::float32, shape.n);
  const BufferId scratch = list.add_scratch("scratch", ElementType::float32, shape.n);
  list.add_launch(
      {.kernel = kernel,
       .grid = shape.grid,
       .block = shape.block,
       .lds_bytes = shape.lds_bytes,
       .arguments = {BufferArgument{out}, BufferArgument{in}, BufferArgument{scratch}, shape.n}});
  return list;
}

inline SimtRun run_simt(const KernelRegistry& kernels, const std::string& kernel,
                        const SimtShape& shape, const ExecutorOptions& options) {
  faulty_line = 0;
  HostBackend backend(options, kernels);
  const std::vector<float> input = counting_input(shape.n);
  const LaunchList list = simt_list(kernel, shape, input);
  const auto resident = backend.allocate(list);
  resident->upload();
  SimtRun run;
  run.report = resident->run();
  run.out.resize(static_cast<std::size_t>(shape.n));
  resident->download(list.find("out"), std::as_writable_bytes(std::span(run.out)));
  return run;
}

inline std::string all_faults(const RunReport& report) {
  std::string text = std::to_string(report.faults.size()) + " faults";
  for (const KernelFault& fault : report.faults) text += "\n  " + to_string(fault);
  return text;
}

// A broken kernel, its correct twin, and the report that the broken one must cause.
struct BrokenKernel {
  std::string kernel;
  FaultKind kind;
  Index3 block{};
  Index3 thread{};
  std::string detail;  // a part of the report's detail
  SimtShape shape{.block = {.x = 64}};
  bool has_line = true;
};

inline void PrintTo(const BrokenKernel& broken, std::ostream* os) {
  *os << broken.kernel;
}

inline std::string name_of_case(const ::testing::TestParamInfo<BrokenKernel>& info) {
  return info.param.kernel;
}

// Expects exactly the report of the broken kernel, first and whatever the wave width and the number
// of OS threads, and none of its twin "KERNEL_fixed".
inline void expect_report(const KernelRegistry& kernels, const BrokenKernel& broken,
                          std::string_view file) {
  for (const int wave_width : {32, 64}) {
    for (const unsigned threads : {1u, 3u}) {
      const ExecutorOptions options{.wave_width = wave_width, .threads = threads};
      SCOPED_TRACE("wave " + std::to_string(wave_width) + ", threads " + std::to_string(threads));
      const SimtRun run = run_simt(kernels, broken.kernel, broken.shape, options);
      ASSERT_FALSE(run.report.ok());
      const KernelFault& fault = run.report.faults.front();
      SCOPED_TRACE(all_faults(run.report));
      EXPECT_EQ(name_of(fault.kind), name_of(broken.kind));
      EXPECT_EQ(fault.kernel, broken.kernel);
      EXPECT_EQ(fault.launch, 0u);
      EXPECT_EQ(to_string(fault.block), to_string(broken.block));
      EXPECT_EQ(to_string(fault.thread), to_string(broken.thread));
      EXPECT_EQ(fault.file, broken.has_line ? file : "");
      EXPECT_EQ(fault.line, broken.has_line ? faulty_line.load() : 0u);
      EXPECT_NE(fault.detail.find(broken.detail), std::string::npos);

      const SimtRun twin = run_simt(kernels, broken.kernel + "_fixed", broken.shape, options);
      EXPECT_TRUE(twin.report.ok()) << all_faults(twin.report);
    }
  }
}

}  // namespace zerodiff::device
