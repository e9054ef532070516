// What the machine's memory can do, measured beside everything that is reported as a share of it.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

namespace zerodiff::benchmarks {

inline constexpr std::size_t kLarge = std::size_t{256} << 20;

// Copies `target.size()` bytes with `threads` threads.
inline void copy_with_threads(std::vector<std::byte>& target, const std::vector<std::byte>& source,
                              std::size_t threads) {
  const std::size_t part = target.size() / threads;
  std::vector<std::jthread> helpers;
  for (std::size_t i = 1; i < threads; ++i) {
    helpers.emplace_back(
        [&, i] { std::memcpy(target.data() + i * part, source.data() + i * part, part); });
  }
  std::memcpy(target.data(), source.data(), part);
}

// bytes_per_second counts bytes read plus bytes written. Argument: threads.
inline void memcpy_baseline(benchmark::State& state) {
  std::vector<std::byte> source(kLarge, std::byte{1});
  std::vector<std::byte> target(kLarge, std::byte{2});
  for ([[maybe_unused]] auto _ : state) {
    copy_with_threads(target, source, static_cast<std::size_t>(state.range(0)));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(2 * kLarge) * state.iterations());
}

}  // namespace zerodiff::benchmarks
