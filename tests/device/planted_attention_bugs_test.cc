// Every bug planted in the kernels of scores, selection and attention is caught: by an output that
// differs from the reference's, by poison, or by a check of the executor.
#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compare/poison.h"
#include "device/host/host_backend.h"
#include "device/paths/run_path.h"
#include "fixtures/generator.h"
#include "fixtures/layer_call_checks.h"
#include "reference/layer.h"
#include "tests/device/planted/planted_bugs.h"
#include "tests/oracle/outputs_difference.h"

namespace zerodiff::device {
namespace {

struct AttentionCall {
  std::string name;
  GeneratorOptions options;
};

GeneratorOptions options_of(std::uint64_t seed, std::int64_t num_heads, std::int64_t num_kv_heads,
                            std::int64_t context) {
  GeneratorOptions options;
  options.seed = seed;
  LayerConfig& config = options.config;
  config.num_heads = num_heads;
  config.num_kv_heads = config.num_index_heads = num_kv_heads;
  config.rotary_dim = 64;
  config.rms_norm_eps = 1e-6F;
  config.sm_scale = 0x1.6a09e6p-4F;
  config.topk = 2;
  config.phase = Phase::prefill;
  config.num_tokens = 3;
  options.min_context = options.max_context = context;
  options.spare_blocks = 1;
  options.k_scale = 0.07F;
  options.v_scale = 0.31F;
  return options;
}

// Contexts longer than topk, a partial last block, padding and empty rows, three heads, NaN codes,
// scores that are all below -5e4.
std::vector<AttentionCall> make_calls() {
  std::vector<AttentionCall> calls;
  auto separate = options_of(1, 6, 3, 700);
  separate.config.batch_mode = BatchMode::graph;
  separate.capacity = 5;
  separate.empty_row_share = 0.4;
  calls.push_back({"bf16_graph", separate});

  auto contiguous = options_of(2, 4, 2, 400);
  contiguous.config.kv_storage = KvStorage::block_contiguous;
  contiguous.config.kv_cache_dtype = contiguous.config.index_cache_dtype =
      ElementType::float8_e4m3fn;
  contiguous.config.topk = 3;
  contiguous.num_requests = 2;
  calls.push_back({"e4m3fn_contiguous", contiguous});

  calls.push_back({"cliff", options_of(3, 2, 1, 241)});

  auto short_context = options_of(4, 2, 2, 140);
  short_context.config.topk = 8;
  calls.push_back({"fewer_blocks_than_topk", short_context});

  auto wide = options_of(5, 2, 1, 300);
  wide.activations = ActivationKind::wide;
  wide.config.kv_cache_dtype = wide.config.index_cache_dtype = ElementType::float8_e4m3fn;
  wide.config.overflow = Overflow::nan;
  wide.config.num_tokens = 40;
  wide.k_scale = wide.v_scale = 1;
  calls.push_back({"e4m3fn_nan", wide});

  auto sharp = options_of(6, 2, 1, 0);
  sharp.config.sm_scale = 1e4F;
  sharp.config.num_tokens = 12;
  sharp.num_requests = 6;
  calls.push_back({"bf16_sharp", sharp});
  return calls;
}

// A call, the same with everything poisoned that no live token reads, and what both must give.
struct Case {
  std::string name;
  LayerCall call;
  LayerCall poisoned;
  Outputs expected;
  Outputs expected_of_poisoned;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> made = [] {
    std::vector<Case> all;
    for (const AttentionCall& named : make_calls()) {
      Case one;
      one.name = named.name;
      one.call = generate_call(named.options);
      check_layer_call(one.call);
      one.poisoned = compare::poisoned_call(one.call, compare::PoisonFill::nan);
      const reference::LayerOptions options{.threads = 1, .keep_index_score = true};
      one.expected = reference::run_layer(one.call, {}, options);
      one.expected_of_poisoned = reference::run_layer(one.poisoned, {}, options);
      all.push_back(std::move(one));
    }
    return all;
  }();
  return made;
}

// How a run of the planted kernels shows the bug; nothing if it does not.
std::optional<std::string> symptom(PlantedBug bug, const LayerCall& call, const Outputs& expected,
                                   PathKind kind) {
  static HostBackend backend({.wave_width = 32, .threads = 1}, planted_kernels());
  PathOptions options;
  options.attention = AttentionOptions{.keep_index_score = true};
  const PlantGuard guard(bug, call);
  const PathRun run = run_path(call, kind, backend, options);
  if (!run.report.ok()) return std::string(name_of(run.report.faults.front().kind));
  const std::string difference = oracle::first_difference(call, expected, run.outputs);
  if (difference.empty()) return std::nullopt;
  return difference;
}

// The first symptom on one path, in the plain calls before the poisoned ones.
std::optional<std::string> first_symptom(PlantedBug bug, PathKind kind) {
  for (const bool poisoned : {false, true}) {
    for (const Case& one : cases()) {
      const auto found = symptom(bug, poisoned ? one.poisoned : one.call,
                                 poisoned ? one.expected_of_poisoned : one.expected, kind);
      if (found) return one.name + (poisoned ? ", poisoned: " : ": ") + *found;
    }
  }
  return std::nullopt;
}

constexpr std::array kPaths{PathKind::unfused, PathKind::fused};

class PlantedAttentionBugs : public testing::TestWithParam<PlantedBugInfo> {};

// Bugs of kernels that one path alone has show on that path.
TEST_P(PlantedAttentionBugs, AreCaughtOnEachPathThatHasThem) {
  const bool unfused_only = GetParam().bug == PlantedBug::topk_sentinel_deref;
  for (const PathKind kind : kPaths) {
    const auto found = first_symptom(GetParam().bug, kind);
    if (unfused_only && kind == PathKind::fused) {
      EXPECT_FALSE(found) << "the fused kernel never reads a selection";
      continue;
    }
    ASSERT_TRUE(found) << name_of(kind) << ": " << GetParam().id << ": " << GetParam().description;
    std::cout << GetParam().id << ", " << name_of(kind) << ": " << *found << "\n";
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlantedAttentionBugs, testing::ValuesIn(planted_attention_bugs()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(PlantedAttentionKernels, ComputeTheSameWithoutABug) {
  for (const PathKind kind : kPaths) {
    EXPECT_EQ(first_symptom(PlantedBug::none, kind), std::nullopt) << name_of(kind);
  }
}

// In plain calls the tail holds finite numbers, which a weight of zero hides.
TEST(PlantedAttentionKernels, ShowTheirReadsOfDeadTokensUnderPoisonAlone) {
  constexpr PlantedBug kBug = PlantedBug::attn_v_tail_nan;
  const Case& one = cases().front();
  for (const PathKind kind : kPaths) {
    EXPECT_EQ(symptom(kBug, one.call, one.expected, kind), std::nullopt);
    const auto found = symptom(kBug, one.poisoned, one.expected_of_poisoned, kind);
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->starts_with("attn_output")) << *found;
  }
}

// Faults that the executor must name, whatever the outputs.
TEST(PlantedAttentionKernels, FailTheExecutorsChecks) {
  for (const PlantedBug bug : {PlantedBug::topk_block_granularity, PlantedBug::topk_head_padding,
                               PlantedBug::topk_k_exceeds_n}) {
    bool out_of_bounds = false;
    for (const Case& one : cases()) {
      out_of_bounds |= symptom(bug, one.call, one.expected, PathKind::fused) ==
                       name_of(FaultKind::out_of_bounds);
    }
    EXPECT_TRUE(out_of_bounds) << static_cast<int>(bug);
  }
}

}  // namespace
}  // namespace zerodiff::device
