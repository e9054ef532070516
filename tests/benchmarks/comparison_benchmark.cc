// Speed of the exact comparison against memcmp of the same tensors, both in one run.
//
// Counter `of_memcmp`: the comparison's speed as a fraction of a single-threaded memcmp over the
// same equal bytes. Goals on two threads: equal bfloat16 tensors at least 0.8; full statistics with
// 1 % of the elements different or NaN at least 0.3.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "compare/exact_comparison.h"
#include "fixtures/tensor.h"

namespace zerodiff::compare {
namespace {

constexpr std::int64_t kBytes = std::int64_t{256} << 20;

template <class Bits>
void fill(Tensor& tensor) {
  std::mt19937_64 random(1);
  for (Bits& bits : tensor.as<Bits>()) {
    // Clears the top exponent bit of every type: no infinity, no NaN.
    bits = static_cast<Bits>(random() & (sizeof(Bits) == 1 ? 0xBF : 0xBFFF));
  }
}

// Two equal tensors of 256 MiB.
struct Pair {
  Tensor expected;
  Tensor got;

  explicit Pair(ElementType type)
      : expected(Tensor::allocate(type, {kBytes / static_cast<std::int64_t>(element_size(type))})) {
    if (element_size(type) == 1) {
      fill<std::uint8_t>(expected);
    } else {
      fill<std::uint16_t>(expected);
    }
    got = expected;
  }
};

// Changes one element in `one_in`: in turn the lowest bit, a NaN on one side, NaNs of two payloads.
template <class Bits>
void disturb(Pair& pair, std::uint64_t one_in, Bits nan, Bits other_nan) {
  std::mt19937_64 random(2);
  const auto expected = pair.expected.as<Bits>();
  const auto got = pair.got.as<Bits>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::uint64_t draw = random();
    if (draw % one_in != 0) continue;
    const std::uint64_t kind = (draw >> 32) % 8;
    if (kind == 0) {
      expected[i] = nan;
      got[i] = other_nan;
    } else {
      got[i] = kind == 1 ? nan : static_cast<Bits>(got[i] ^ 1U);
    }
  }
}

double memcmp_seconds(const Pair& pair) {
  double best = 1e30;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(
        std::memcmp(pair.expected.bytes().data(), pair.got.bytes().data(), kBytes));
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

void run(benchmark::State& state, const Pair& pair, double baseline_seconds) {
  ComparisonOptions options;
  options.threads = static_cast<int>(state.range(0));
  std::int64_t mismatches = 0;
  const auto start = std::chrono::steady_clock::now();
  for ([[maybe_unused]] auto _ : state) {
    mismatches = compare_all(pair.expected, pair.got, NanRule::any_nan, options).mismatches;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
      static_cast<double>(state.iterations());
  state.SetBytesProcessed(state.iterations() * 2 * kBytes);
  state.counters["mismatches"] = static_cast<double>(mismatches);
  state.counters["of_memcmp"] = baseline_seconds / seconds;
}

void memcmp_baseline(benchmark::State& state) {
  const Pair pair(ElementType::bfloat16);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(
        std::memcmp(pair.expected.bytes().data(), pair.got.bytes().data(), kBytes));
  }
  state.SetBytesProcessed(state.iterations() * 2 * kBytes);
}

void equal(benchmark::State& state, ElementType type) {
  const Pair pair(type);
  run(state, pair, memcmp_seconds(pair));
}

void different(benchmark::State& state, ElementType type, std::uint64_t one_in) {
  Pair pair(type);
  const double baseline = memcmp_seconds(pair);
  if (element_size(type) == 1) {
    disturb<std::uint8_t>(pair, one_in, 0x7F, 0xFF);
  } else if (type == ElementType::bfloat16) {
    disturb<std::uint16_t>(pair, one_in, 0x7FC0, 0xFFC1);
  } else {
    disturb<std::uint16_t>(pair, one_in, 0x7E00, 0xFE01);
  }
  run(state, pair, baseline);
}

BENCHMARK(memcmp_baseline)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(equal, bfloat16, ElementType::bfloat16)
    ->Arg(1)
    ->Arg(2)
    ->ArgName("threads")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(different, bfloat16_1_percent, ElementType::bfloat16, 100)
    ->Arg(1)
    ->Arg(2)
    ->ArgName("threads")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(different, float16_1_percent, ElementType::float16, 100)
    ->Arg(1)
    ->Arg(2)
    ->ArgName("threads")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(different, float8_e4m3fn_1_percent, ElementType::float8_e4m3fn, 100)
    ->Arg(1)
    ->Arg(2)
    ->ArgName("threads")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(different, bfloat16_every_element, ElementType::bfloat16, 1)
    ->Arg(1)
    ->Arg(2)
    ->ArgName("threads")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace zerodiff::compare
