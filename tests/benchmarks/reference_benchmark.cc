// Reference pre-attention stages (norm, RoPE, materialisation, insertion) against a large memcpy of
// the same run: bytes in (rows, slots, positions) plus bytes out (q, index_q, written cache bytes).
#include <benchmark/benchmark.h>

#include "fixtures/generator.h"
#include "reference/layer.h"
#include "tests/benchmarks/memory_baseline.h"

namespace zerodiff::benchmarks {
namespace {

GeneratorOptions prefill_options(std::int64_t tokens, std::optional<ElementType> cache_dtype) {
  GeneratorOptions options;
  options.seed = 20261130;
  options.model_dtype = ElementType::bfloat16;
  options.config.num_heads = 16;
  options.config.num_kv_heads = 1;
  options.config.num_index_heads = 1;
  options.config.rotary_dim = 64;
  options.config.rms_norm_eps = 1e-6F;
  options.config.sm_scale = 0.088388346F;
  options.config.kv_cache_dtype = cache_dtype;
  options.config.index_cache_dtype = cache_dtype;
  options.config.phase = Phase::prefill;
  options.config.num_tokens = tokens;
  options.num_requests = 4;
  options.max_context = 512;
  options.k_scale = 0.07F;
  options.v_scale = 0.31F;
  return options;
}

std::int64_t bytes_in_and_out(const LayerCall& call) {
  const std::int64_t rows = call.config.num_tokens;
  const auto cache_bytes = static_cast<std::int64_t>(element_size(call.kv_cache_type()));
  const auto index_bytes = static_cast<std::int64_t>(element_size(call.index_cache_type()));
  const std::int64_t in = call.config.row_elements() * 2 + 3 * 8;
  const std::int64_t q = call.config.num_heads * kHeadDim * 2;
  const std::int64_t caches = 2 * call.config.num_kv_heads * kHeadDim * cache_bytes;
  const std::int64_t index = (call.config.num_index_heads + 1) * kHeadDim * index_bytes;
  return rows * (in + q + caches + index);
}

void pre_attention(benchmark::State& state, std::optional<ElementType> cache_dtype) {
  const LayerCall call = generate_call(prefill_options(state.range(0), cache_dtype));
  Outputs outputs;
  for ([[maybe_unused]] auto _ : state) {
    reference::run_insertion(call, outputs, {}, static_cast<int>(state.range(1)));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(bytes_in_and_out(call) * state.iterations());
}

BENCHMARK(memcpy_baseline)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(pre_attention, bf16_cache, std::nullopt)
    ->ArgNames({"tokens", "threads"})
    ->Args({8192, 1})
    ->Args({8192, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(pre_attention, fp8_cache, ElementType::float8_e4m3fn)
    ->ArgNames({"tokens", "threads"})
    ->Args({8192, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace zerodiff::benchmarks
