// Broken accesses to buffers: each must cause exactly its report, and its correct twin none.
#include "tests/device/simt_harness.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
namespace {

__device__ __forceinline__ int64_t global_thread() {
  return int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

// One element too many.
ZERODIFF_TEST_KERNEL(write_past_end) {
  FAULTY(out[global_thread() + 1] = 1.0f);
}
ZERODIFF_TEST_KERNEL(write_past_end_fixed) {
  out[global_thread()] = 1.0f;
}

ZERODIFF_TEST_KERNEL(read_before_start) {
  const int64_t i = global_thread();
  const float left = FAULTY(in[i - 1]);
  out[i] = left;
}
ZERODIFF_TEST_KERNEL(read_before_start_fixed) {
  const int64_t i = global_thread();
  out[i] = i == 0 ? 0.0f : in[i - 1];
}

// Four elements asked for, two left.
ZERODIFF_TEST_KERNEL(load16_past_end) {
  const int64_t i = global_thread();
  if (i != n / 4) return;
  const Vec16<float> values = FAULTY(load16(in + 2, i * 4 - 4));
  store16(out, 0, values);
}
ZERODIFF_TEST_KERNEL(load16_past_end_fixed) {
  const int64_t i = global_thread();
  if (i < n / 4) store16(out, i * 4, load16(in + 4, i * 4 - 4));
}

ZERODIFF_TEST_KERNEL(store16_past_end) {
  const int64_t i = global_thread();
  if (i == 5) FAULTY(store16(out, n - 2, Vec16<float>{}));
}
ZERODIFF_TEST_KERNEL(store16_past_end_fixed) {
  const int64_t i = global_thread();
  if (i == 5) store16(out, n - 4, Vec16<float>{});
}

ZERODIFF_TEST_KERNEL(load16_misaligned) {
  const int64_t i = global_thread();
  if (i == 3) FAULTY(load16(in, i * 4 + 1));
}
ZERODIFF_TEST_KERNEL(load16_misaligned_fixed) {
  const int64_t i = global_thread();
  if (i == 3) load16(in, i * 4);
}

ZERODIFF_TEST_KERNEL(store16_misaligned) {
  const int64_t i = global_thread();
  if (i == 70) FAULTY(store16(out + 2, 4, Vec16<float>{}));
}
ZERODIFF_TEST_KERNEL(store16_misaligned_fixed) {
  const int64_t i = global_thread();
  if (i == 70) store16(out + 2, 6, Vec16<float>{});
}

ZERODIFF_TEST_KERNEL(read_unwritten_output) {
  const int64_t i = global_thread();
  if (i == 9) FAULTY(out[i] += 1.0f);
}
ZERODIFF_TEST_KERNEL(read_unwritten_output_fixed) {
  const int64_t i = global_thread();
  out[i] = 1.0f;
  if (i == 9) out[i] += 1.0f;
}

// Three of the four elements have been written.
ZERODIFF_TEST_KERNEL(load16_unwritten) {
  if (global_thread() != 8) return;
  for (int k = 0; k < 3; ++k) scratch[k] = 0.0f;
  FAULTY(load16(scratch, 0));
}
ZERODIFF_TEST_KERNEL(load16_unwritten_fixed) {
  if (global_thread() != 8) return;
  for (int k = 0; k < 4; ++k) scratch[k] = 0.0f;
  load16(scratch, 0);
}

ZERODIFF_TEST_KERNEL(two_values_in_one_block) {
  FAULTY(out[threadIdx.x / 2] = static_cast<float>(threadIdx.x));
}
ZERODIFF_TEST_KERNEL(two_values_in_one_block_fixed) {
  const uint32_t pair = threadIdx.x / 2;
  out[pair] = static_cast<float>(pair);
}

// A barrier does not help: the reader of the result sees whichever block came last.
ZERODIFF_TEST_KERNEL(two_values_across_blocks) {
  __syncthreads();
  if (threadIdx.x == 7) FAULTY(out[3] = static_cast<float>(blockIdx.x));
}
ZERODIFF_TEST_KERNEL(two_values_across_blocks_fixed) {
  __syncthreads();
  if (threadIdx.x == 7) out[blockIdx.x] = static_cast<float>(blockIdx.x);
}

ZERODIFF_TEST_KERNEL(store16_conflict) {
  if (threadIdx.x < 2)
    FAULTY(store16(out, 0, Vec16<float>{{1, 2, 3, static_cast<float>(threadIdx.x)}}));
}
ZERODIFF_TEST_KERNEL(store16_conflict_fixed) {
  if (threadIdx.x < 2) store16(out, 0, Vec16<float>{{1, 2, 3, 4}});
}

// Equal values in the end, but the first thread changed its mind in between.
ZERODIFF_TEST_KERNEL(rewritten_then_equal) {
  if (threadIdx.x == 0) out[0] = 1.0f;
  if (threadIdx.x < 2) FAULTY(out[0] = 2.0f);
}
ZERODIFF_TEST_KERNEL(rewritten_then_equal_fixed) {
  if (threadIdx.x == 0) out[0] = 1.0f;
  if (threadIdx.x == 0) out[0] = 2.0f;
}

ZERODIFF_TEST_KERNEL(read_of_neighbours_write) {
  const uint32_t t = threadIdx.x;
  out[t] = 1.0f;
  if (t == 10) FAULTY(scratch[0] = out[t - 1]);
}
ZERODIFF_TEST_KERNEL(read_of_neighbours_write_fixed) {
  const uint32_t t = threadIdx.x;
  out[t] = 1.0f;
  __syncthreads();
  if (t == 10) scratch[0] = out[t - 1];
}

// The first two reads make the element one that several threads read.
ZERODIFF_TEST_KERNEL(write_after_neighbours_read) {
  const uint32_t t = threadIdx.x;
  if (t == 40) out[5] = 1.0f;
  __syncthreads();
  if (t == 1 || t == 2) scratch[t] = out[5];
  if (t == 40) FAULTY(out[5] = 1.5f);
}
ZERODIFF_TEST_KERNEL(write_after_neighbours_read_fixed) {
  const uint32_t t = threadIdx.x;
  if (t == 40) out[5] = 1.0f;
  __syncthreads();
  if (t == 1 || t == 2) scratch[t] = out[5];
  __syncthreads();
  if (t == 40) out[5] = 1.5f;
}

ZERODIFF_TEST_KERNEL(read_across_blocks) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) out[0] = 4.0f;
  if (blockIdx.x == 1) FAULTY(scratch[1] = out[0]);
}
ZERODIFF_TEST_KERNEL(read_across_blocks_fixed) {
  if (threadIdx.x == 0) out[blockIdx.x] = 4.0f;
  if (threadIdx.x == 0) scratch[blockIdx.x] = out[blockIdx.x];
}

const KernelRegistry& kernels() {
  static const KernelRegistry registry({
      ZERODIFF_TEST_PAIR(write_past_end),
      ZERODIFF_TEST_PAIR(read_before_start),
      ZERODIFF_TEST_PAIR(load16_past_end),
      ZERODIFF_TEST_PAIR(store16_past_end),
      ZERODIFF_TEST_PAIR(load16_misaligned),
      ZERODIFF_TEST_PAIR(store16_misaligned),
      ZERODIFF_TEST_PAIR(read_unwritten_output),
      ZERODIFF_TEST_PAIR(load16_unwritten),
      ZERODIFF_TEST_PAIR(two_values_in_one_block),
      ZERODIFF_TEST_PAIR(two_values_across_blocks),
      ZERODIFF_TEST_PAIR(store16_conflict),
      ZERODIFF_TEST_PAIR(rewritten_then_equal),
      ZERODIFF_TEST_PAIR(read_of_neighbours_write),
      ZERODIFF_TEST_PAIR(write_after_neighbours_read),
      ZERODIFF_TEST_PAIR(read_across_blocks),
  });
  return registry;
}

}  // namespace
}  // namespace ZERODIFF_BACKEND

namespace {

class SimtAccess : public testing::TestWithParam<BrokenKernel> {};

TEST_P(SimtAccess, ReportsTheBrokenKernelAndPassesItsTwin) {
  expect_report(kernels(), GetParam(), "tests/device/simt_access_test.cc");
}

constexpr SimtShape kOneBlock{.block = {.x = 64}};
constexpr SimtShape kFourBlocks{.grid = {.x = 4}, .block = {.x = 64}};

INSTANTIATE_TEST_SUITE_P(Bounds, SimtAccess,
                         testing::Values(BrokenKernel{"write_past_end",
                                                      FaultKind::out_of_bounds,
                                                      {3, 0, 0},
                                                      {63, 0, 0},
                                                      "write to buffer out, element 256 of 256",
                                                      kFourBlocks},
                                         BrokenKernel{"read_before_start",
                                                      FaultKind::out_of_bounds,
                                                      {},
                                                      {},
                                                      "read of buffer in, element -1 of 256",
                                                      kFourBlocks},
                                         BrokenKernel{"load16_past_end",
                                                      FaultKind::out_of_bounds,
                                                      {1, 0, 0},
                                                      {},
                                                      "read of buffer in, elements 254..257 of 256",
                                                      kFourBlocks},
                                         BrokenKernel{
                                             "store16_past_end",
                                             FaultKind::out_of_bounds,
                                             {},
                                             {5, 0, 0},
                                             "write to buffer out, elements 254..257 of 256",
                                             kFourBlocks}),
                         name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Alignment, SimtAccess,
    testing::Values(BrokenKernel{"load16_misaligned",
                                 FaultKind::misaligned_access,
                                 {},
                                 {3, 0, 0},
                                 "read of buffer in, elements 13..16, at byte offset 52"},
                    BrokenKernel{"store16_misaligned",
                                 FaultKind::misaligned_access,
                                 {1, 0, 0},
                                 {6, 0, 0},
                                 "write to buffer out, elements 6..9, at byte offset 24",
                                 kFourBlocks}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Unwritten, SimtAccess,
    testing::Values(BrokenKernel{"read_unwritten_output",
                                 FaultKind::unwritten_read,
                                 {},
                                 {9, 0, 0},
                                 "read of buffer out, element 9, which nobody has written"},
                    BrokenKernel{"load16_unwritten",
                                 FaultKind::unwritten_read,
                                 {},
                                 {8, 0, 0},
                                 "read of buffer scratch, element 3, which nobody has written"}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Conflicts, SimtAccess,
    testing::Values(
        BrokenKernel{"two_values_in_one_block",
                     FaultKind::write_conflict,
                     {},
                     {1, 0, 0},
                     "write of 0x3f800000 to buffer out, element 0, where block (0,0,0), thread "
                     "(0,0,0) wrote 0x00000000"},
        BrokenKernel{"two_values_across_blocks",
                     FaultKind::write_conflict,
                     {1, 0, 0},
                     {7, 0, 0},
                     "where block (0,0,0), thread (7,0,0) wrote 0x00000000",
                     kFourBlocks},
        BrokenKernel{"store16_conflict",
                     FaultKind::write_conflict,
                     {},
                     {1, 0, 0},
                     "write of 0x3f800000 to buffer out, element 3"},
        BrokenKernel{"rewritten_then_equal",
                     FaultKind::write_conflict,
                     {},
                     {1, 0, 0},
                     "write of 0x40000000 to buffer out, element 0"}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Races, SimtAccess,
    testing::Values(BrokenKernel{"read_of_neighbours_write",
                                 FaultKind::buffer_race,
                                 {},
                                 {10, 0, 0},
                                 "read of buffer out, element 9, also written by block (0,0,0), "
                                 "thread (9,0,0) with no barrier between"},
                    BrokenKernel{"write_after_neighbours_read",
                                 FaultKind::buffer_race,
                                 {},
                                 {40, 0, 0},
                                 "write to buffer out, element 5, also read by block (0,0,0), "
                                 "thread (2,0,0) with no barrier between"},
                    BrokenKernel{"read_across_blocks",
                                 FaultKind::buffer_race,
                                 {1, 0, 0},
                                 {},
                                 "read of buffer out, element 0, also written by block (0,0,0)",
                                 kFourBlocks}),
    name_of_case);

TEST(SimtAccessSemantics, AnAbsentBufferHasNoElement) {
  LaunchList list;
  const std::vector<float> input = counting_input(4);
  list.add_buffer({.name = "in",
                   .count = 4,
                   .role = BufferRole::input,
                   .initial = {.kind = InitialContent::Kind::bytes, .bytes = bytes_of(input)}});
  list.add_launch({.kernel = "read_unwritten_output_fixed",
                   .block = {.x = 32},
                   .arguments = {NullArgument{}, BufferArgument{}, NullArgument{}, int32_t{4}}});
  HostBackend backend({}, kernels());
  const auto resident = backend.allocate(list);
  resident->upload();
  const RunReport report = resident->run();
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(name_of(report.faults[0].kind), "out_of_bounds");
  EXPECT_NE(report.faults[0].detail.find("(absent)"), std::string::npos) << all_faults(report);
}

}  // namespace
}  // namespace zerodiff::device
