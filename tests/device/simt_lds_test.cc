// Broken uses of LDS: each must cause exactly its report, and its correct twin none.
#include "tests/device/simt_harness.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
namespace {

ZERODIFF_TEST_KERNEL(lds_write_past_end) {
  ZERODIFF_SHARED(float, tile, 64);
  FAULTY(tile[threadIdx.x + 1] = 0.0f);
}
ZERODIFF_TEST_KERNEL(lds_write_past_end_fixed) {
  ZERODIFF_SHARED(float, tile, 64);
  tile[threadIdx.x] = 0.0f;
}

// Right on the neighbouring array: bounds are the array's own.
ZERODIFF_TEST_KERNEL(lds_read_of_next_array) {
  ZERODIFF_SHARED(float, first, 64);
  ZERODIFF_SHARED(float, second, 64);
  first[threadIdx.x] = 0.0f;
  second[threadIdx.x] = 0.0f;
  out[threadIdx.x] = FAULTY(first[threadIdx.x + 64]);
}
ZERODIFF_TEST_KERNEL(lds_read_of_next_array_fixed) {
  ZERODIFF_SHARED(float, first, 64);
  ZERODIFF_SHARED(float, second, 64);
  first[threadIdx.x] = 0.0f;
  second[threadIdx.x] = 0.0f;
  out[threadIdx.x] = second[threadIdx.x];
}

// The launch gives 64 floats.
ZERODIFF_TEST_KERNEL(dynamic_lds_past_end) {
  ZERODIFF_DYNAMIC_SHARED(float, pool);
  SharedView<float> half = pool + 32;
  if (threadIdx.x > 30) FAULTY(half[threadIdx.x - 30] = 1.0f);
}
ZERODIFF_TEST_KERNEL(dynamic_lds_past_end_fixed) {
  ZERODIFF_DYNAMIC_SHARED(float, pool);
  SharedView<float> half = pool + 32;
  if (threadIdx.x > 32) half[threadIdx.x - 33] = 1.0f;
}

ZERODIFF_TEST_KERNEL(lds_misaligned) {
  ZERODIFF_SHARED(float, tile, 512);
  FAULTY(store16(tile, threadIdx.x * 4 + 2, Vec16<float>{}));
}
ZERODIFF_TEST_KERNEL(lds_misaligned_fixed) {
  ZERODIFF_SHARED(float, tile, 512);
  store16(tile, threadIdx.x * 4, Vec16<float>{});
}

ZERODIFF_TEST_KERNEL(lds_unwritten) {
  ZERODIFF_SHARED(float, tile, 64);
  if (threadIdx.x != 20) tile[threadIdx.x] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = FAULTY(tile[threadIdx.x ^ 3]);
}
ZERODIFF_TEST_KERNEL(lds_unwritten_fixed) {
  ZERODIFF_SHARED(float, tile, 64);
  tile[threadIdx.x] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x ^ 3];
}

// Block 0 writes what block 1 reads: LDS does not outlive its group.
ZERODIFF_TEST_KERNEL(lds_of_an_earlier_group) {
  ZERODIFF_SHARED(float, tile, 1);
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) tile[0] = 1.0f;
  out[blockIdx.x] = FAULTY(tile[0]);
}
ZERODIFF_TEST_KERNEL(lds_of_an_earlier_group_fixed) {
  ZERODIFF_SHARED(float, tile, 1);
  if (threadIdx.x != 0) return;
  tile[0] = 1.0f;
  out[blockIdx.x] = tile[0];
}

ZERODIFF_TEST_KERNEL(lds_missing_barrier) {
  ZERODIFF_SHARED(float, tile, 64);
  tile[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (threadIdx.x == 40) FAULTY(out[0] = tile[39]);
}
ZERODIFF_TEST_KERNEL(lds_missing_barrier_fixed) {
  ZERODIFF_SHARED(float, tile, 64);
  tile[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 40) out[0] = tile[39];
}

// A shuffle orders the lanes of a wave, but not their LDS accesses.
ZERODIFF_TEST_KERNEL(lds_ordered_by_shuffle_only) {
  ZERODIFF_SHARED(float, tile, 64);
  tile[threadIdx.x] = 1.0f;
  shfl_xor32(1.0f, 1);
  FAULTY(out[threadIdx.x] = tile[threadIdx.x ^ 1]);
}
ZERODIFF_TEST_KERNEL(lds_ordered_by_shuffle_only_fixed) {
  ZERODIFF_SHARED(float, tile, 64);
  tile[threadIdx.x] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

// The second phase overwrites what slow readers of the first one still need.
ZERODIFF_TEST_KERNEL(lds_write_after_read) {
  ZERODIFF_SHARED(float, tile, 64);
  tile[threadIdx.x] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x / 2];
  if (threadIdx.x == 63) FAULTY(tile[0] = 2.0f);
}
ZERODIFF_TEST_KERNEL(lds_write_after_read_fixed) {
  ZERODIFF_SHARED(float, tile, 64);
  tile[threadIdx.x] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x / 2];
  __syncthreads();
  if (threadIdx.x == 63) tile[0] = 2.0f;
}

ZERODIFF_TEST_KERNEL(lds_two_writers) {
  ZERODIFF_SHARED(int32_t, count, 1);
  FAULTY(count[0] = static_cast<int32_t>(threadIdx.x / 8));
}
// Equal values from many threads, and different ones with a barrier between, are fine.
ZERODIFF_TEST_KERNEL(lds_two_writers_fixed) {
  ZERODIFF_SHARED(int32_t, count, 1);
  count[0] = 5;
  __syncthreads();
  if (threadIdx.x == 8) count[0] = 6;
}

ZERODIFF_TEST_KERNEL(lds_capacity) {
  ZERODIFF_DYNAMIC_SHARED(float, pool);
  pool[threadIdx.x] = 0.0f;
  faulty_line = __LINE__ + 1;
  ZERODIFF_SHARED(float, large, 16 * 1024 - 63);
  large[threadIdx.x] = 0.0f;
}
ZERODIFF_TEST_KERNEL(lds_capacity_fixed) {
  ZERODIFF_DYNAMIC_SHARED(float, pool);
  ZERODIFF_SHARED(float, large, 16 * 1024 - 64);
  pool[threadIdx.x] = 0.0f;
  large[threadIdx.x] = 0.0f;
}

const KernelRegistry& kernels() {
  static const KernelRegistry registry({
      ZERODIFF_TEST_PAIR(lds_write_past_end),
      ZERODIFF_TEST_PAIR(lds_read_of_next_array),
      ZERODIFF_TEST_PAIR(dynamic_lds_past_end),
      ZERODIFF_TEST_PAIR(lds_misaligned),
      ZERODIFF_TEST_PAIR(lds_unwritten),
      ZERODIFF_TEST_PAIR(lds_of_an_earlier_group),
      ZERODIFF_TEST_PAIR(lds_missing_barrier),
      ZERODIFF_TEST_PAIR(lds_ordered_by_shuffle_only),
      ZERODIFF_TEST_PAIR(lds_write_after_read),
      ZERODIFF_TEST_PAIR(lds_two_writers),
      ZERODIFF_TEST_PAIR(lds_capacity),
  });
  return registry;
}

}  // namespace
}  // namespace ZERODIFF_BACKEND

namespace {

class SimtLds : public testing::TestWithParam<BrokenKernel> {};

TEST_P(SimtLds, ReportsTheBrokenKernelAndPassesItsTwin) {
  expect_report(kernels(), GetParam(), "tests/device/simt_lds_test.cc");
}

constexpr SimtShape kWithDynamic{.block = {.x = 64}, .lds_bytes = 256};

INSTANTIATE_TEST_SUITE_P(
    Bounds, SimtLds,
    testing::Values(BrokenKernel{"lds_write_past_end",
                                 FaultKind::lds_out_of_bounds,
                                 {},
                                 {63, 0, 0},
                                 "write to LDS array tile, element 64 of 64"},
                    BrokenKernel{"lds_read_of_next_array",
                                 FaultKind::lds_out_of_bounds,
                                 {},
                                 {},
                                 "read of LDS array first, element 64 of 64"},
                    BrokenKernel{"dynamic_lds_past_end",
                                 FaultKind::lds_out_of_bounds,
                                 {},
                                 {62, 0, 0},
                                 "write to LDS array pool, element 64 of 64",
                                 kWithDynamic},
                    BrokenKernel{"lds_misaligned",
                                 FaultKind::misaligned_access,
                                 {},
                                 {},
                                 "write to LDS array tile, elements 2..5, at byte offset 8"},
                    BrokenKernel{"lds_capacity",
                                 FaultKind::lds_capacity,
                                 {},
                                 {},
                                 "LDS array large ends at byte 65552 of 65536",
                                 kWithDynamic}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Unwritten, SimtLds,
    testing::Values(BrokenKernel{"lds_unwritten",
                                 FaultKind::lds_unwritten_read,
                                 {},
                                 {23, 0, 0},
                                 "read of LDS array tile, element 20, which nobody has written"},
                    BrokenKernel{"lds_of_an_earlier_group",
                                 FaultKind::lds_unwritten_read,
                                 {1, 0, 0},
                                 {},
                                 "LDS array tile, element 0",
                                 {.grid = {.x = 4}, .block = {.x = 32}}}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Races, SimtLds,
    testing::Values(
        BrokenKernel{"lds_missing_barrier",
                     FaultKind::lds_race,
                     {},
                     {40, 0, 0},
                     "read of LDS array tile, element 39, also written by block (0,0,0), thread "
                     "(39,0,0) with no barrier between"},
        BrokenKernel{"lds_ordered_by_shuffle_only",
                     FaultKind::lds_race,
                     {},
                     {},
                     "read of LDS array tile, element 1, also written by block (0,0,0), thread "
                     "(1,0,0)"},
        BrokenKernel{"lds_write_after_read",
                     FaultKind::lds_race,
                     {},
                     {63, 0, 0},
                     "write to LDS array tile, element 0, also read by block (0,0,0), thread "
                     "(1,0,0)"},
        BrokenKernel{"lds_two_writers",
                     FaultKind::lds_race,
                     {},
                     {8, 0, 0},
                     "write of 0x00000001 to LDS array count, element 0, where block (0,0,0), "
                     "thread (7,0,0) wrote 0x00000000 with no barrier between"}),
    name_of_case);

}  // namespace
}  // namespace zerodiff::device
