// What judging one captured path costs beside one reference run of its call: comparison and legal
// search of the insertion outputs of real kernels, and of the worst case, a path that no choice
// explains.
#include <benchmark/benchmark.h>

#include <array>
#include <string>

#include "compare/legal_search.h"
#include "compare/output_comparison.h"
#include "fixtures/capture.h"
#include "fixtures/generator.h"
#include "reference/layer.h"

namespace zerodiff::benchmarks {
namespace {

// 4096 prefill tokens of a TP4 rank with fp8 caches.
LayerCall large_call() {
  GeneratorOptions options;
  LayerConfig& config = options.config;
  config.num_heads = 16;
  config.num_kv_heads = 1;
  config.num_index_heads = 1;
  config.rotary_dim = 64;
  config.rms_norm_eps = 1e-6F;
  config.sm_scale = 0.088388346F;
  config.num_tokens = 4096;
  config.phase = Phase::prefill;
  config.kv_cache_dtype = ElementType::float8_e4m3fn;
  config.index_cache_dtype = ElementType::float8_e4m3fn;
  options.max_context = 0;
  return generate_call(options);
}

void judge(const LayerCall& call, const Outputs& contract, const Outputs& got) {
  auto comparisons =
      compare::compare_outputs(call, contract, "reference", got, "path", {{.threads = 1}, true});
  compare::judge_insertion(call, contract, got, compare::AllowedChoices(call.config), comparisons,
                           1);
  benchmark::DoNotOptimize(comparisons.data());
}

void reference_insertion(benchmark::State& state) {
  const LayerCall call = large_call();
  Outputs outputs;
  for (auto _ : state) reference::run_insertion(call, outputs, {}, 1);
}
BENCHMARK(reference_insertion)->Unit(benchmark::kMillisecond);

void judge_variant(benchmark::State& state, const reference::Choices& choices) {
  const LayerCall call = large_call();
  const Outputs contract = reference::run_insertion(call, {}, 1);
  const Outputs got = reference::run_insertion(call, choices, 1);
  for (auto _ : state) judge(call, contract, got);
}
BENCHMARK_CAPTURE(judge_variant, identical, reference::Choices{})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(judge_variant, rsqrt, reference::Choices{.rsqrt_ulp = 1})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(judge_variant, sum_order,
                  reference::Choices{.sumsq_order = reference::SumsqOrder::sequential})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(judge_variant, rope,
                  reference::Choices{.rope_contraction = reference::RopeContraction::separate})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(judge_variant, fault_norm_materialised,
                  reference::Choices{.norm_materialised = true})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(judge_variant, fault_quantize_from,
                  reference::Choices{.quantize_from = QuantizeFrom::fp32})
    ->Unit(benchmark::kMillisecond);

// Real kernels: the whole layer against the judgement of one of its paths.
void reference_layer_of_capture(benchmark::State& state) {
  const CaptureReader reader("fixtures/captured/m3_small_prefill_bf16.h5",
                             {.probe_in_child = false});
  for (auto _ : state) {
    const Outputs outputs = reference::run_layer(reader.call(), {}, {.threads = 1});
    benchmark::DoNotOptimize(outputs.q.bytes().data());
  }
}
BENCHMARK(reference_layer_of_capture)->Unit(benchmark::kMillisecond);

void judge_path_of_capture(benchmark::State& state) {
  CaptureReader reader("fixtures/captured/m3_small_prefill_bf16.h5", {.probe_in_child = false});
  const Outputs contract = reference::run_layer(reader.call(), {}, {.threads = 1});
  const Outputs got = reader.read_path("atom_fused");
  for (auto _ : state) judge(reader.call(), contract, got);
}
BENCHMARK(judge_path_of_capture)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace zerodiff::benchmarks
