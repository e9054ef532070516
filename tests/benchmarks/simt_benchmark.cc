// Cost of the host backend: work-items, collectives and checked accesses.
//
// Counters: `items` work-items a second, `collectives` lane collectives a second (each at most one
// fiber switch), `accesses` element accesses a second; `ns_per_lane_op` is the time of one
// collective or access of one lane on one OS thread. The first argument is the block size, the
// second whether accesses are checked.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/host/host_backend.h"
#include "device/platform/platform.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
namespace {

constexpr int kRounds = 64;

ZERODIFF_KERNEL(nothing)(View<float> out) {
  if (blockIdx.x == gridDim.x) out[0] = 0.0f;
}

ZERODIFF_KERNEL(butterflies)(View<float> out) {
  float value = static_cast<float>(threadIdx.x);
  for (int round = 0; round < kRounds; ++round) value = value + shfl_xor32(value, 1 << round % 5);
  out[int64_t{blockIdx.x} * blockDim.x + threadIdx.x] = value;
}

ZERODIFF_KERNEL(barriers)(View<float> out) {
  for (int round = 0; round < kRounds; ++round) __syncthreads();
  out[int64_t{blockIdx.x} * blockDim.x + threadIdx.x] = 0.0f;
}

ZERODIFF_KERNEL(lds_accesses)(View<float> out) {
  ZERODIFF_SHARED(float, tile, 1024);
  float value = 0.0f;
  tile[threadIdx.x] = value;
  for (int round = 0; round < kRounds; ++round) {
    value = value + tile[threadIdx.x];
    tile[threadIdx.x] = value;
  }
  out[int64_t{blockIdx.x} * blockDim.x + threadIdx.x] = value;
}

// Each work-item reads, then writes, its own rows.
ZERODIFF_KERNEL(copy_rows)(View<float> out, View<const float> in) {
  const int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (int64_t round = 0; round < kRounds; ++round) {
    out[item * kRounds + round] = in[item * kRounds + round];
  }
}

const KernelRegistry& kernels() {
  static const KernelRegistry registry(
      {ZERODIFF_HOST_KERNEL(nothing), ZERODIFF_HOST_KERNEL(butterflies),
       ZERODIFF_HOST_KERNEL(barriers), ZERODIFF_HOST_KERNEL(lds_accesses),
       ZERODIFF_HOST_KERNEL(copy_rows)});
  return registry;
}

}  // namespace
}  // namespace ZERODIFF_BACKEND

namespace {

constexpr std::int64_t kItems = 32 * 1024;

// Runs a kernel over kItems work-items on one OS thread.
void run(benchmark::State& state, const std::string& kernel, std::int64_t ops_per_item,
         const char* counter) {
  const auto block = static_cast<std::uint32_t>(state.range(0));
  LaunchList list;
  std::vector<Argument> arguments{
      BufferArgument{list.add_output("out", ElementType::float32, kItems * kRounds)}};
  if (kernel == "copy_rows") {
    arguments.emplace_back(BufferArgument{
        list.add_input("in", Tensor::zeros(ElementType::float32, {kItems * kRounds}))});
  }
  list.add_launch({.kernel = kernel,
                   .grid = {.x = static_cast<std::uint32_t>(kItems) / block},
                   .block = {.x = block},
                   .arguments = arguments});
  HostBackend backend({.threads = 1, .checked = state.range(1) != 0}, kernels());
  const auto resident = backend.allocate(list);
  resident->upload();
  for ([[maybe_unused]] auto _ : state) {
    if (!resident->run().ok()) return state.SkipWithError("the kernel is faulty");
  }
  const double ops =
      static_cast<double>(state.iterations()) * static_cast<double>(kItems * ops_per_item);
  state.counters[counter] = benchmark::Counter(ops, benchmark::Counter::kIsRate);
  state.counters["ns_per_lane_op"] =
      benchmark::Counter(ops * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void work_items(benchmark::State& state) {
  run(state, "nothing", 1, "items");
}
void shuffles(benchmark::State& state) {
  run(state, "butterflies", kRounds, "collectives");
}
void group_barriers(benchmark::State& state) {
  run(state, "barriers", kRounds, "collectives");
}
void lds(benchmark::State& state) {
  run(state, "lds_accesses", 2 * kRounds, "accesses");
}
void buffers(benchmark::State& state) {
  run(state, "copy_rows", 2 * kRounds, "accesses");
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  for (const int checked : {1, 0}) {
    for (const int block : {32, 256, 1024}) benchmark->Args({block, checked});
  }
}
BENCHMARK(work_items)->Apply(sizes);
BENCHMARK(shuffles)->Apply(sizes)->Unit(benchmark::kMillisecond);
BENCHMARK(group_barriers)->Apply(sizes)->Unit(benchmark::kMillisecond);
BENCHMARK(lds)->Apply(sizes)->Unit(benchmark::kMillisecond);
BENCHMARK(buffers)->Apply(sizes)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace zerodiff::device
