// Collectives that not all lanes reach, and other ways to fail in mid-kernel: each must cause
// exactly its report, and its correct twin none.
#include <stdexcept>

#include "tests/device/simt_harness.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
namespace {

ZERODIFF_TEST_KERNEL(shuffle_after_return) {
  if (threadIdx.x == 37) return;
  FAULTY(shfl_xor32(1.0f, 16));
}
ZERODIFF_TEST_KERNEL(shuffle_after_return_fixed) {
  shfl_xor32(1.0f, 16);
  if (threadIdx.x == 37) return;
}

ZERODIFF_TEST_KERNEL(shuffle_in_half) {
  if (threadIdx.x % 32 < 16) FAULTY(shfl_xor32(1.0f, 8));
}
// A whole group of 32 may diverge from the other half of a wave of 64.
ZERODIFF_TEST_KERNEL(shuffle_in_half_fixed) {
  if (threadIdx.x < 32) {
    for (int mask = 16; mask > 0; mask /= 2) shfl_xor32(1.0f, mask);
  } else {
    shfl32(1.0f, 3);
  }
}

ZERODIFF_TEST_KERNEL(two_shuffles_for_one) {
  if (threadIdx.x % 32 == 2) {
    shfl32(1.0f, 0);
  } else {
    FAULTY(shfl32(1.0f, 0));
  }
}
ZERODIFF_TEST_KERNEL(two_shuffles_for_one_fixed) {
  const float value = threadIdx.x % 32 == 2 ? 1.0f : 2.0f;
  shfl32(value, 0);
}

// One lane does one round fewer.
ZERODIFF_TEST_KERNEL(shuffle_rounds_differ) {
  const int rounds = threadIdx.x == 63 ? 4 : 5;
  for (int k = 0; k < rounds; ++k) FAULTY(shfl_xor32(1.0f, 1 << k));
}
ZERODIFF_TEST_KERNEL(shuffle_rounds_differ_fixed) {
  for (int k = 0; k < 5; ++k) shfl_xor32(1.0f, 1 << k);
}

// 48 threads: the second group has 16 lanes.
ZERODIFF_TEST_KERNEL(shuffle_in_part_of_a_group) {
  FAULTY(shfl_xor32(1.0f, 1));
}
ZERODIFF_TEST_KERNEL(shuffle_in_part_of_a_group_fixed) {
  if (threadIdx.x < 32) shfl_xor32(1.0f, 1);
}

ZERODIFF_TEST_KERNEL(shuffle_against_barrier) {
  if (threadIdx.x == 4) {
    __syncthreads();
  } else {
    FAULTY(shfl_xor32(1.0f, 1));
  }
}
ZERODIFF_TEST_KERNEL(shuffle_against_barrier_fixed) {
  shfl_xor32(1.0f, 1);
  __syncthreads();
}

ZERODIFF_TEST_KERNEL(lane_too_high) {
  FAULTY(shfl32(1.0f, static_cast<int>(threadIdx.x) + 1));
}
ZERODIFF_TEST_KERNEL(lane_too_high_fixed) {
  shfl32(1.0f, (static_cast<int>(threadIdx.x) + 1) % 32);
}

ZERODIFF_TEST_KERNEL(mask_too_high) {
  FAULTY(shfl_xor32(1.0f, 32));
}
ZERODIFF_TEST_KERNEL(mask_too_high_fixed) {
  shfl_xor32(1.0f, 31);
}

ZERODIFF_TEST_KERNEL(barrier_after_return) {
  if (threadIdx.x >= 62) return;
  FAULTY(__syncthreads());
}
ZERODIFF_TEST_KERNEL(barrier_after_return_fixed) {
  __syncthreads();
  if (threadIdx.x >= 62) return;
}

ZERODIFF_TEST_KERNEL(two_barriers_for_one) {
  if (threadIdx.x < 32) {
    FAULTY(__syncthreads());
  } else {
    __syncthreads();
  }
}
ZERODIFF_TEST_KERNEL(two_barriers_for_one_fixed) {
  __syncthreads();
}

// The first wave goes round once more than the second.
ZERODIFF_TEST_KERNEL(barrier_rounds_differ) {
  const int rounds = threadIdx.x < 32 ? 3 : 2;
  for (int k = 0; k < rounds; ++k) FAULTY(__syncthreads());
}
ZERODIFF_TEST_KERNEL(barrier_rounds_differ_fixed) {
  for (int k = 0; k < 3; ++k) __syncthreads();
}

ZERODIFF_TEST_KERNEL(throws) {
  __syncthreads();
  if (blockIdx.x == 1 && threadIdx.x == 33) throw std::runtime_error("no such page");
  __syncthreads();
}
ZERODIFF_TEST_KERNEL(throws_fixed) {
  __syncthreads();
  __syncthreads();
}

ZERODIFF_TEST_KERNEL(throws_an_int) {
  if (threadIdx.x == 2) throw 7;
}
ZERODIFF_TEST_KERNEL(throws_an_int_fixed) {
  try {
    if (threadIdx.x == 2) throw 7;
  } catch (int value) {
    out[threadIdx.x] = static_cast<float>(value);
  }
}

const KernelRegistry& kernels() {
  static const KernelRegistry registry({
      ZERODIFF_TEST_PAIR(shuffle_after_return),
      ZERODIFF_TEST_PAIR(shuffle_in_half),
      ZERODIFF_TEST_PAIR(two_shuffles_for_one),
      ZERODIFF_TEST_PAIR(shuffle_rounds_differ),
      ZERODIFF_TEST_PAIR(shuffle_in_part_of_a_group),
      ZERODIFF_TEST_PAIR(shuffle_against_barrier),
      ZERODIFF_TEST_PAIR(lane_too_high),
      ZERODIFF_TEST_PAIR(mask_too_high),
      ZERODIFF_TEST_PAIR(barrier_after_return),
      ZERODIFF_TEST_PAIR(two_barriers_for_one),
      ZERODIFF_TEST_PAIR(barrier_rounds_differ),
      ZERODIFF_TEST_PAIR(throws),
      ZERODIFF_TEST_PAIR(throws_an_int),
  });
  return registry;
}

}  // namespace
}  // namespace ZERODIFF_BACKEND

namespace {

class SimtDivergence : public testing::TestWithParam<BrokenKernel> {};

TEST_P(SimtDivergence, ReportsTheBrokenKernelAndPassesItsTwin) {
  expect_report(kernels(), GetParam(), "tests/device/simt_divergence_test.cc");
}

INSTANTIATE_TEST_SUITE_P(
    Shuffles, SimtDivergence,
    testing::Values(
        BrokenKernel{"shuffle_after_return",
                     FaultKind::partial_collective,
                     {},
                     {32, 0, 0},
                     "shuffle reached by threads 32-36,38-63; thread 37 returned"},
        BrokenKernel{"shuffle_in_half",
                     FaultKind::partial_collective,
                     {},
                     {},
                     "shuffle reached by threads 0-15; threads 16-31 returned"},
        BrokenKernel{"two_shuffles_for_one",
                     FaultKind::partial_collective,
                     {},
                     {},
                     "shuffle reached by threads 0-1,3-31; thread 2 at the shuffle of "
                     "tests/device/simt_divergence_test.cc:"},
        BrokenKernel{"shuffle_rounds_differ",
                     FaultKind::partial_collective,
                     {},
                     {32, 0, 0},
                     "shuffle reached by threads 32-62; thread 63 returned"},
        BrokenKernel{"shuffle_in_part_of_a_group",
                     FaultKind::partial_collective,
                     {},
                     {32, 0, 0},
                     "shuffle reached by threads 32-47; the block has no threads 48-63",
                     {.block = {.x = 48}}},
        BrokenKernel{"shuffle_against_barrier",
                     FaultKind::partial_collective,
                     {},
                     {},
                     "shuffle reached by threads 0-3,5-31; thread 4 at the barrier of "
                     "tests/device/simt_divergence_test.cc:"},
        BrokenKernel{
            "lane_too_high", FaultKind::invalid_lane, {}, {31, 0, 0}, "shuffle from lane 32 of 32"},
        BrokenKernel{
            "mask_too_high", FaultKind::invalid_lane, {}, {}, "shuffle from lane 32 of 32"}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Barriers, SimtDivergence,
    testing::Values(BrokenKernel{"barrier_after_return",
                                 FaultKind::divergent_barrier,
                                 {},
                                 {},
                                 "barrier reached by threads 0-61; threads 62-63 returned"},
                    BrokenKernel{"two_barriers_for_one",
                                 FaultKind::divergent_barrier,
                                 {},
                                 {},
                                 "barrier reached by threads 0-31; threads 32-63 at the barrier of "
                                 "tests/device/simt_divergence_test.cc:"},
                    BrokenKernel{"barrier_rounds_differ",
                                 FaultKind::divergent_barrier,
                                 {},
                                 {},
                                 "barrier reached by threads 0-31; threads 32-63 returned"}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(Exceptions, SimtDivergence,
                         testing::Values(BrokenKernel{"throws",
                                                      FaultKind::kernel_exception,
                                                      {1, 0, 0},
                                                      {33, 0, 0},
                                                      "no such page",
                                                      {.grid = {.x = 3}, .block = {.x = 64}},
                                                      false},
                                         BrokenKernel{"throws_an_int",
                                                      FaultKind::kernel_exception,
                                                      {},
                                                      {2, 0, 0},
                                                      "not a std::exception",
                                                      {.block = {.x = 64}},
                                                      false}),
                         name_of_case);

}  // namespace
}  // namespace zerodiff::device
