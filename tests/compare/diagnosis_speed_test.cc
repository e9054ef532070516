// A diagnosis of 16 M elements takes at most 10 s on two cores.
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <iostream>

#include "compare/diagnose.h"
#include "fixtures/generator.h"
#include "reference/layer.h"

namespace zerodiff::compare {
namespace {

// K of 16,384 rows of 8 heads: 16,777,216 elements, all of them stored.
GeneratorOptions large_options() {
  GeneratorOptions options;
  options.config.num_heads = 8;
  options.config.num_kv_heads = 8;
  options.config.num_index_heads = 8;
  options.config.rotary_dim = 64;
  options.config.rms_norm_eps = 1e-6F;
  options.config.sm_scale = 0.088F;
  options.config.phase = Phase::prefill;
  options.config.num_tokens = 16384;
  options.config.kv_cache_dtype = ElementType::float8_e4m3fn;
  options.config.skip_index_branch = true;
  options.num_requests = 4;
  options.max_context_blocks = 200;
  options.k_scale = 0.07F;
  options.v_scale = 0.31F;
  return options;
}

struct Spent {
  double cpu = 0;
  double wall = 0;
};

Spent diagnose(const LayerCall& call, const Outputs& expected, const Outputs& got) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu = std::clock();
  const auto diagnoses =
      diagnose_insertion(call, expected, got, "faulty", {.choices = {}, .threads = 2});
  Spent spent;
  spent.cpu = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  spent.wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(diagnoses.size(), 1U);
  for (const Diagnosis& diagnosis : diagnoses) std::cout << describe(diagnosis) << "\n";
  std::cout << spent.cpu << " s of CPU, " << spent.wall << " s\n";
  return spent;
}

// Two cores are busy for at most 10 s: 20 s of CPU, which does not depend on what else runs.
constexpr double kMostCpu = 20;

TEST(DiagnosisSpeed, SixteenMillionElements) {
  const LayerCall call = generate_call(large_options());
  const Outputs expected = reference::run_insertion(call, {}, 2);
  ASSERT_GE(expected.k_cache.size(), std::int64_t{1} << 24);
  Outputs got;
  got.v_cache = expected.v_cache;
  // Explained, everywhere.
  LayerCall other = call;
  other.k_scale.as<float>()[0] = 0.08F;
  got.k_cache = reference::run_insertion(other, {}, 2).k_cache;
  EXPECT_LE(diagnose(call, expected, got).cpu, kMostCpu);
  // Unexplained, everywhere: the search goes through all it knows.
  for (std::uint8_t& code : got.k_cache.as<std::uint8_t>()) code ^= 0x55;
  EXPECT_LE(diagnose(call, expected, got).cpu, kMostCpu);
}

}  // namespace
}  // namespace zerodiff::compare
