// What correct kernels compute: shuffles, barriers, LDS and indices at both wave widths, with any
// number of OS threads.
#include <cmath>
#include <mutex>
#include <vector>

#include "tests/device/simt_harness.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
namespace {

__device__ __forceinline__ uint32_t flat_thread() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
__device__ __forceinline__ uint32_t flat_block() {
  return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}
__device__ __forceinline__ int64_t flat_item() {
  return int64_t{flat_block()} * blockDim.x * blockDim.y * blockDim.z + flat_thread();
}

// Every lane of a group gets the group's sum.
ZERODIFF_TEST_KERNEL(butterfly_sum) {
  const int64_t i = flat_item();
  float sum = in[i];
  for (int mask = 16; mask > 0; mask /= 2) sum = sum + shfl_xor32(sum, mask);
  out[i] = sum;
}

// A different source lane in each lane and each round, so that rounds must not mix.
ZERODIFF_TEST_KERNEL(rotations) {
  const int64_t i = flat_item();
  const int lane = static_cast<int>(threadIdx.x % 32);
  float value = in[i];
  for (int round = 1; round <= 40; ++round) value = shfl32(value, (lane + round) % 32);
  out[i] = value;
}

// Other scalar types, all their bits.
ZERODIFF_TEST_KERNEL(shuffled_types) {
  const int64_t i = flat_item();
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t wide = shfl_xor32(int64_t{lane} << 40 | 1, 1);
  const int32_t negative = shfl32(-lane, 31 - lane);
  const uint32_t high = shfl_xor32(0x80000000u + static_cast<uint32_t>(lane), 5);
  const float nan_bits = shfl_xor32(bits_as<float>(0x7fc00000u + static_cast<uint32_t>(lane)), 2);
  const bool right = wide == (int64_t{lane ^ 1} << 40 | 1) && negative == lane - 31 &&
                     high == 0x80000000u + static_cast<uint32_t>(lane ^ 5) &&
                     bits_as<uint32_t>(nan_bits) == 0x7fc00000u + static_cast<uint32_t>(lane ^ 2);
  out[i] = right ? 1.0f : 0.0f;
}

// A tree over LDS: each round needs its barrier.
ZERODIFF_TEST_KERNEL(tree_maximum) {
  ZERODIFF_DYNAMIC_SHARED(float, tile);
  const uint32_t t = threadIdx.x;
  tile[t] = in[flat_item()];
  for (uint32_t width = blockDim.x; width > 1;) {
    const uint32_t half = (width + 1) / 2;
    __syncthreads();
    if (t + half < width) tile[t] = fmaxf(tile[t], tile[t + half]);
    width = half;
  }
  __syncthreads();
  out[flat_item()] = tile[0];
}

// Waves meet in LDS: shuffles inside, a barrier between.
ZERODIFF_TEST_KERNEL(block_sum) {
  ZERODIFF_SHARED(float, partial, 32);
  const uint32_t t = threadIdx.x;
  float sum = in[flat_item()];
  for (int mask = 16; mask > 0; mask /= 2) sum = sum + shfl_xor32(sum, mask);
  if (t % 32 == 0) partial[t / 32] = sum;
  __syncthreads();
  float total = 0;
  for (uint32_t group = 0; group < blockDim.x / 32; ++group) total = total + partial[group];
  out[flat_item()] = total;
}

// 16-byte moves between buffers and LDS of every buffer type's width.
ZERODIFF_TEST_KERNEL(wide_moves) {
  ZERODIFF_SHARED(uint8_t, bytes, 16 * 256);
  ZERODIFF_SHARED(float, floats, 4 * 256);
  const uint32_t t = threadIdx.x;
  const int64_t i = int64_t{flat_block()} * blockDim.x + t;
  if (i >= n / 4) return;
  const Vec16<float> values = load16(in, i * 4);
  store16(floats, t * 4, values);
  Vec16<uint8_t> pattern;
  for (int k = 0; k < 16; ++k) pattern.e[k] = static_cast<uint8_t>(t + static_cast<uint32_t>(k));
  store16(bytes, t * 16, pattern);
  const Vec16<uint8_t> back = load16(bytes, t * 16);
  Vec16<float> result = load16(floats, t * 4);
  for (int k = 0; k < 4; ++k) result.e[k] += back.e[k * 5] == pattern.e[k * 5] ? 0.0f : 1000.0f;
  store16(out, i * 4, result);
}

ZERODIFF_TEST_KERNEL(indices) {
  const uint32_t code = threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z + 1000 * blockIdx.x +
                        10000 * blockIdx.y + 100000 * blockIdx.z;
  out[flat_item()] = static_cast<float>(code);
}

ZERODIFF_TEST_KERNEL(reported_wave_size) {
  out[flat_item()] = static_cast<float>(wave_size());
}

// The order in which lanes pass a shuffle, as one OS thread sees it.
std::mutex order_mutex;
std::vector<uint32_t> order;
ZERODIFF_TEST_KERNEL(record_order) {
  const auto record = [] {
    const std::lock_guard lock(order_mutex);
    order.push_back(threadIdx.x);
  };
  record();
  shfl_xor32(1.0f, 1);
  record();
}

const KernelRegistry& kernels() {
  static const KernelRegistry registry({
      ZERODIFF_HOST_KERNEL(butterfly_sum),
      ZERODIFF_HOST_KERNEL(rotations),
      ZERODIFF_HOST_KERNEL(shuffled_types),
      ZERODIFF_HOST_KERNEL(tree_maximum),
      ZERODIFF_HOST_KERNEL(block_sum),
      ZERODIFF_HOST_KERNEL(wide_moves),
      ZERODIFF_HOST_KERNEL(indices),
      ZERODIFF_HOST_KERNEL(reported_wave_size),
      ZERODIFF_HOST_KERNEL(record_order),
  });
  return registry;
}

}  // namespace
}  // namespace ZERODIFF_BACKEND

namespace {

constexpr std::uint32_t kBlocks = 3;

// Block size and wave width.
class SimtSemantics : public testing::TestWithParam<std::tuple<std::uint32_t, int>> {
 protected:
  std::uint32_t block() const { return std::get<0>(GetParam()); }

  std::vector<float> run(const std::string& kernel) const {
    const SimtShape shape{.grid = {.x = kBlocks},
                          .block = {.x = block()},
                          .n = static_cast<std::int32_t>(kBlocks * block()),
                          .lds_bytes = 4 * std::int64_t{block()}};
    const SimtRun result =
        run_simt(kernels(), kernel, shape,
                 {.wave_width = std::get<1>(GetParam()), .threads = 2, .checked = true});
    EXPECT_TRUE(result.report.ok()) << all_faults(result.report);
    return result.out;
  }

  // The inputs are 1, 2, 3, ... : what `per_span` makes of the first of each span of `size`.
  template <class Make>
  std::vector<float> expected(std::uint32_t size, const Make& make) const {
    std::vector<float> values;
    for (std::uint32_t i = 0; i < kBlocks * block(); ++i) {
      values.push_back(static_cast<float>(make(i / size * size + 1, i % size)));
    }
    return values;
  }
};

TEST_P(SimtSemantics, ButterflyGivesEachGroupOf32ItsSum) {
  EXPECT_EQ(run("butterfly_sum"),
            expected(32, [](std::uint32_t first, auto) { return 32 * first + 496; }));
}

TEST_P(SimtSemantics, RotationsComposeInEveryGroup) {
  // 1 + 2 + ... + 40 = 820 = 20 modulo 32.
  EXPECT_EQ(run("rotations"), expected(32, [](std::uint32_t first, std::uint32_t lane) {
              return first + (lane + 20) % 32;
            }));
}

TEST_P(SimtSemantics, ShufflesKeepAllBitsOfEveryType) {
  EXPECT_EQ(run("shuffled_types"), std::vector<float>(kBlocks * block(), 1.0f));
}

TEST_P(SimtSemantics, BarriersOrderLdsAccesses) {
  const std::uint32_t size = block();
  EXPECT_EQ(run("tree_maximum"),
            expected(size, [&](std::uint32_t first, auto) { return first + size - 1; }));
}

TEST_P(SimtSemantics, ShufflesAndBarriersWorkTogether) {
  const std::uint32_t size = block();
  EXPECT_EQ(run("block_sum"), expected(size, [&](std::uint32_t first, auto) {
              return size * first + size * (size - 1) / 2;
            }));
}

TEST_P(SimtSemantics, KernelsSeeTheWaveWidth) {
  const auto width = static_cast<float>(std::get<1>(GetParam()));
  EXPECT_EQ(run("reported_wave_size"), std::vector<float>(kBlocks * block(), width));
}

INSTANTIATE_TEST_SUITE_P(BlocksAndWaves, SimtSemantics,
                         testing::Combine(testing::Values(32u, 64u, 96u, 128u, 256u, 1024u),
                                          testing::Values(32, 64)),
                         [](const auto& row) {
                           return "block" + std::to_string(std::get<0>(row.param)) + "_wave" +
                                  std::to_string(std::get<1>(row.param));
                         });

TEST(SimtSemanticsMore, WideMovesKeepEveryByte) {
  const SimtShape shape{.grid = {.x = 2}, .block = {.x = 32}, .n = 256};
  const SimtRun result = run_simt(kernels(), "wide_moves", shape, {});
  ASSERT_TRUE(result.report.ok()) << all_faults(result.report);
  EXPECT_EQ(result.out, counting_input(256));
}

struct Grid {
  Extent3 grid;
  Extent3 block;
};
void PrintTo(const Grid& grid, std::ostream* os) {
  *os << "grid of " << grid.grid.volume() << ", block of " << grid.block.volume();
}
class SimtIndices : public testing::TestWithParam<Grid> {};

TEST_P(SimtIndices, CoverTheGridOnceXFastest) {
  const Extent3 grid = GetParam().grid;
  const Extent3 block = GetParam().block;
  const auto n = static_cast<std::int32_t>(grid.volume() * block.volume());
  const SimtRun result =
      run_simt(kernels(), "indices", {.grid = grid, .block = block, .n = n}, {.threads = 2});
  ASSERT_TRUE(result.report.ok()) << all_faults(result.report);
  std::size_t item = 0;
  for (std::uint64_t b = 0; b < grid.volume(); ++b) {
    for (std::uint64_t t = 0; t < block.volume(); ++t, ++item) {
      const auto [tx, ty, tz] = unflatten(t, block);
      const auto [bx, by, bz] = unflatten(b, grid);
      const std::uint32_t code = tx + 10 * ty + 100 * tz + 1000 * bx + 10000 * by + 100000 * bz;
      ASSERT_EQ(result.out[item], static_cast<float>(code)) << "block " << b << " thread " << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, SimtIndices,
                         testing::Values(Grid{{1, 1, 1}, {1, 1, 1}}, Grid{{1, 1, 1}, {8, 4, 2}},
                                         Grid{{4, 3, 2}, {1, 1, 1}}, Grid{{4, 3, 2}, {5, 3, 2}},
                                         Grid{{1, 1, 7}, {1, 9, 1}}, Grid{{9, 1, 1}, {1, 1, 9}}));

// The order at the two wave widths differs, and is what a lockstep of the wave gives.
TEST(SimtOrder, LanesOfAWaveTakeTurnsFromCollectiveToCollective) {
  for (const std::uint32_t width : {32u, 64u}) {
    order.clear();
    const SimtRun result = run_simt(kernels(), "record_order", {.block = {.x = 128}},
                                    {.wave_width = static_cast<int>(width), .threads = 1});
    ASSERT_TRUE(result.report.ok()) << all_faults(result.report);
    std::vector<std::uint32_t> expected;
    for (std::uint32_t wave = 0; wave < 128; wave += width) {
      for (std::uint32_t i = 0; i < 2 * width; ++i) expected.push_back(wave + i % width);
    }
    EXPECT_EQ(order, expected) << "wave " << width;
  }
}

// Thousands of groups, any number of OS threads, both check levels: the same bytes.
TEST(SimtDeterminism, BytesDependNeitherOnThreadsNorOnChecks) {
  const SimtShape shape{.grid = {.x = 2000}, .block = {.x = 64}, .n = 128000};
  const SimtRun expected = run_simt(kernels(), "block_sum", shape, {.threads = 1});
  ASSERT_TRUE(expected.report.ok()) << all_faults(expected.report);
  for (const unsigned threads : {1u, 2u, 5u}) {
    for (const bool checked : {true, false}) {
      const SimtRun result =
          run_simt(kernels(), "block_sum", shape, {.threads = threads, .checked = checked});
      ASSERT_TRUE(result.report.ok()) << all_faults(result.report);
      EXPECT_EQ(result.out, expected.out) << threads << " threads, checked " << checked;
    }
  }
}

}  // namespace
}  // namespace zerodiff::device
