// Reference attention as a share of a peak-FMA loop, and reference index scores as a share of a
// read loop, each measured in the same run. counters: FLOP/s counts two per multiply-add.
#include <benchmark/benchmark.h>

#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "reference/fma_chain.h"
#include "reference/index_score.h"
#include "reference/sparse_attention.h"
#include "tests/benchmarks/memory_baseline.h"

namespace zerodiff::benchmarks {
namespace {

constexpr int kThreads = 2;

// bf16 values of magnitude 0.5 to 2, either sign.
void fill_random(Tensor& tensor, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::uint16_t& bits : tensor.as<std::uint16_t>()) {
    const std::uint64_t draw = random();
    bits = static_cast<std::uint16_t>(((draw & 1) << 15) | (0x3F00 + (draw >> 8 & 0xFF)));
  }
}

Tensor random_tensor(Shape shape, std::uint64_t seed) {
  Tensor tensor = Tensor::allocate(ElementType::bfloat16, std::move(shape));
  fill_random(tensor, seed);
  return tensor;
}

LayerCall decode_call(std::int64_t tokens, std::int64_t context) {
  LayerCall call;
  call.config.num_heads = 16;
  call.config.num_kv_heads = 1;
  call.config.num_index_heads = 1;
  call.config.rotary_dim = 64;
  call.config.rms_norm_eps = 1e-6F;
  call.config.sm_scale = 0.088388346F;
  call.config.num_tokens = tokens;
  call.qkv = random_tensor({tokens, call.config.row_elements()}, 1);
  call.positions = Tensor::allocate(ElementType::int64, {tokens});
  for (std::int64_t& position : call.positions.as<std::int64_t>()) position = context - 1;
  call.query_start_loc = Tensor::allocate(ElementType::int32, {tokens + 1});
  std::iota(call.query_start_loc.as<std::int32_t>().begin(),
            call.query_start_loc.as<std::int32_t>().end(), 0);
  const std::int64_t columns = (context + kBlockSize - 1) / kBlockSize;
  call.block_table = Tensor::allocate(ElementType::int32, {tokens, columns});
  std::iota(call.block_table.as<std::int32_t>().begin(), call.block_table.as<std::int32_t>().end(),
            0);
  return call;
}

// Each row selects `blocks` blocks of its own.
reference::SparseBlockTable full_table(std::int64_t rows, std::int64_t blocks) {
  reference::SparseBlockTable table;
  table.table = Tensor::allocate(ElementType::int32, {rows, blocks * kPagesPerBlock});
  std::iota(table.table.as<std::int32_t>().begin(), table.table.as<std::int32_t>().end(), 0);
  table.context_lens = Tensor::allocate(ElementType::int32, {rows});
  for (std::int32_t& length : table.context_lens.as<std::int32_t>()) {
    length = static_cast<std::int32_t>(blocks * kBlockSize);
  }
  return table;
}

// Arguments: tokens, selected blocks a token.
void sparse_attention(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  const std::int64_t blocks = state.range(1);
  LayerCall call = decode_call(tokens, blocks * kBlockSize);
  call.k_cache = random_tensor({tokens * blocks * kPagesPerBlock, 1, 16, 16, 8}, 2);
  call.v_cache = random_tensor({tokens * blocks * kPagesPerBlock, 1, 2, 128, 8}, 3);
  const Tensor q = random_tensor({tokens, 16 * kHeadDim}, 4);
  const auto table = full_table(tokens, blocks);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(
        reference::sparse_attention(call, q, call.k_cache, call.v_cache, table, kThreads));
  }
  const double flops = 2.0 * 2 * 16 * kHeadDim * kBlockSize * static_cast<double>(tokens * blocks);
  state.counters["FLOP/s"] =
      benchmark::Counter(flops * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate, benchmark::Counter::kIs1000);
}

// Twelve independent chains keep every FMA unit busy.
void run_fma_chains(std::int64_t rounds) {
  namespace packet = Eigen::internal;
  reference::Lanes acc[12];
  for (auto& lane : acc) lane = packet::pset1<reference::Lanes>(1.0F);
  const auto factor = packet::pset1<reference::Lanes>(0.999F);
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (auto& lane : acc) {
      lane = reference::fused_multiply_add(lane, factor, factor);
      asm volatile("" : "+x"(lane));  // kept, and in a register
    }
  }
}

void peak_fma(benchmark::State& state) {
  constexpr std::int64_t kRounds = 4'000'000;
  for ([[maybe_unused]] auto _ : state) {
    std::vector<std::jthread> helpers;
    for (int i = 1; i < kThreads; ++i) helpers.emplace_back([] { run_fma_chains(kRounds); });
    run_fma_chains(kRounds);
  }
  const double flops = 2.0 * 12 * reference::kLanes * kRounds * kThreads;
  state.counters["FLOP/s"] =
      benchmark::Counter(flops * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate, benchmark::Counter::kIs1000);
}

// Argument: tokens of context.
void index_score(benchmark::State& state) {
  const std::int64_t context = state.range(0);
  const LayerCall call = decode_call(1, context);
  const Tensor cache = random_tensor({context / kBlockSize, kBlockSize, kHeadDim}, 5);
  const Tensor index_q = random_tensor({1, kHeadDim}, 6);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(reference::index_score(call, index_q, cache, kThreads));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(cache.size_bytes()) * state.iterations());
}

std::uint64_t sum_of(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += words[i];
  return sum;
}

void read_loop(benchmark::State& state) {
  const std::vector<std::uint64_t> words(kLarge / sizeof(std::uint64_t), 3);
  const std::size_t part = words.size() / kThreads;
  for ([[maybe_unused]] auto _ : state) {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < kThreads; ++i) {
      helpers.emplace_back(
          [&, i] { benchmark::DoNotOptimize(sum_of(words.data() + i * part, part)); });
    }
    benchmark::DoNotOptimize(sum_of(words.data(), part));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(kLarge) * state.iterations());
}

BENCHMARK(peak_fma)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(sparse_attention)
    ->ArgNames({"tokens", "blocks"})
    ->Args({16, 16})
    ->Args({32, 16})
    ->Args({64, 16})
    ->Args({64, 8})
    ->Args({64, 4})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(read_loop)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(index_score)
    ->ArgName("context")
    ->Arg(1 << 18)
    ->Arg(1 << 19)
    ->Arg(1 << 20)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace zerodiff::benchmarks
