// Wrong kernels leave the bound of attention, on random inputs and on a real capture's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compare/attention_bound.h"
#include "fixtures/capture.h"
#include "tests/compare/attention_inputs.h"
#include "tests/compare/softmax_kernel.h"

namespace zerodiff::compare {
namespace {

struct WrongKernel {
  const char* name;
  SoftmaxKernel kernel;
  // Alters the tokens of a row; `call` and `inputs` for what lies beside them.
  void (*change)(const LayerCall& call, const Outputs& inputs, std::int64_t kv_head,
                 RowTokens& tokens) = nullptr;
};
void PrintTo(const WrongKernel& wrong, std::ostream* out) {
  *out << wrong.name;
}

// The row's first block becomes another row's.
void neighbouring_block(const LayerCall& call, const Outputs& inputs, std::int64_t kv_head,
                        RowTokens& tokens) {
  if (tokens.k.size() < 2) return;
  const RowTokens last = row_tokens(call, inputs, call.config.num_tokens - 1, kv_head);
  const bool same = last.k.front() == tokens.k.front();
  const RowTokens other = same ? row_tokens(call, inputs, 0, kv_head) : last;
  const std::size_t block = std::min({std::size_t{128}, tokens.k.size(), other.k.size()});
  std::copy_n(other.k.begin(), block, tokens.k.begin());
  std::copy_n(other.v.begin(), block, tokens.v.begin());
}

void without_last(const LayerCall& /*call*/, const Outputs& /*inputs*/, std::int64_t /*kv_head*/,
                  RowTokens& tokens) {
  if (tokens.k.size() < 2) return;
  tokens.k.pop_back();
  tokens.v.pop_back();
}

void nan_in_last_v(const LayerCall& /*call*/, const Outputs& /*inputs*/, std::int64_t /*kv_head*/,
                   RowTokens& tokens) {
  if (!tokens.v.empty()) tokens.v.back().fill(std::numeric_limits<float>::quiet_NaN());
}

std::vector<WrongKernel> wrong_kernels() {
  return {
      {"neighbouring_block", {.name = ""}, neighbouring_block},
      {"a_missing_rescale", {.name = "", .tile = 16, .forget_a_rescale = true}},
      {"a_missing_merge_weight",
       {.name = "", .tile = 16, .splits = 4, .forget_merge_weight = true}},
      {"fp8_weights", {.name = "", .p_dtype = PDtype::fp8}},
      {"fp8_weights_without_range", {.name = "", .p_dtype = PDtype::fp8, .p_range = 1}},
      {"last_token_missing", {.name = ""}, without_last},
      {"nan_in_the_tail", {.name = ""}, nan_in_last_v},
      {"log2e_twice", {.name = "", .scale_factor = 1.442695F}},
      {"log2e_never", {.name = "", .scale_factor = 0.6931472F}},
      {"dead_tokens_in_the_denominator", {.name = "", .dead_in_sum = 15}},
  };
}

class WrongKernels : public testing::TestWithParam<WrongKernel> {};

Tensor run_wrong(const WrongKernel& wrong, const LayerCall& call, const Outputs& inputs) {
  return run(wrong.kernel, call, inputs,
             [&](std::int64_t /*row*/, std::int64_t kv_head, RowTokens& tokens) {
               if (wrong.change != nullptr) wrong.change(call, inputs, kv_head, tokens);
             });
}

TEST_P(WrongKernels, LeaveTheBoundOnRandomInputs) {
  for (const test::CallKind& kind : test::kCallKinds) {
    const AttentionCase attention = random_case(kind, 9, {40, 127, 250, 600}, 4, 2, 1.5F);
    const Tensor got = run_wrong(GetParam(), attention.call, attention.outputs);
    EXPECT_GT(attention.check(got).headroom.outside, 0) << kind.name;
  }
}

TEST_P(WrongKernels, LeaveTheBoundOnARealCapture) {
  for (const char* file : {"m3_small_decode_fp8", "m3_small_prefill_bf16"}) {
    CaptureReader reader(std::string(ZERODIFF_SOURCE_DIR) + "/fixtures/captured/" + file + ".h5",
                         {.probe_in_child = false});
    const Outputs path = reader.read_path("atom_fused");
    const AttentionInputs inputs{&path.q, &path.k_cache, &path.v_cache, &path.sparse_block_table,
                                 &path.sparse_context_lens};
    const Tensor got = run_wrong(GetParam(), reader.call(), path);
    EXPECT_GT(check_attention(reader.call(), inputs, got, {}).headroom.outside, 0) << file;
  }
}

INSTANTIATE_TEST_SUITE_P(, WrongKernels, testing::ValuesIn(wrong_kernels()),
                         [](const auto& row) { return std::string(row.param.name); });

// One row and head: the bound of what the case holds.
struct OneHead {
  AttentionCase attention;
  RowTokens tokens;
  HeadValues q;
  RowBound bound;

  OneHead(const test::CallKind& kind, std::uint64_t seed, std::int64_t position, float sharpness)
      : attention(random_case(kind, seed, {position}, 1, 1, sharpness)),
        tokens(row_tokens(attention.call, attention.outputs, 0, 0)),
        q() {
    for (std::size_t d = 0; d < 128; ++d) {
      q[d] = test::value_at(attention.outputs.q, static_cast<std::int64_t>(d));
    }
    AttentionBound evaluation(attention.call, test::k_pool(attention.call, attention.outputs),
                              test::v_pool(attention.call, attention.outputs), {});
    bound = evaluation.evaluate(attention.outputs.sparse_block_table.as<std::int32_t>(),
                                static_cast<std::int64_t>(tokens.k.size()),
                                attention.outputs.q.as<std::uint16_t>().first(128));
  }
  bool resolves(std::size_t token) const {
    const double p = bound.weights(static_cast<Eigen::Index>(token), 0) / bound.sums(0);
    for (Eigen::Index d = 0; d < 128; ++d) {
      const double v = static_cast<double>(tokens.v[token][static_cast<std::size_t>(d)]);
      if (p * std::fabs(v - bound.exact(d, 0)) / (1 - p) > 2 * bound.bound(d, 0)) return true;
    }
    return false;
  }
};

class DroppedToken : public testing::TestWithParam<test::CallKind> {};

// Whatever the rule calls resolved is found out, token by token, and the share is the report's.
TEST_P(DroppedToken, IsOutsideWhereverTheRuleSaysSo) {
  for (const float sharpness : {0.5F, 2.0F}) {
    const OneHead head(GetParam(), 21, 140, sharpness);
    std::int64_t resolved = 0;
    for (std::size_t token = 0; token < head.tokens.k.size(); ++token) {
      if (!head.resolves(token)) continue;
      ++resolved;
      const auto drop = [&](std::int64_t /*row*/, std::int64_t /*head*/, RowTokens& tokens) {
        tokens.k.erase(tokens.k.begin() + static_cast<std::ptrdiff_t>(token));
        tokens.v.erase(tokens.v.begin() + static_cast<std::ptrdiff_t>(token));
      };
      const Tensor got = run({.name = "", .order = SumOrder::truncated}, head.attention.call,
                             head.attention.outputs, drop);
      EXPECT_GT(head.attention.check(got).headroom.outside, 0) << "token " << token;
    }
    const AttentionCheck check = head.attention.check(head.attention.outputs.attn_output);
    EXPECT_GT(resolved, 0);
    EXPECT_EQ(check.resolution.resolved, resolved);
    EXPECT_EQ(check.resolution.tokens, 141);
  }
}

INSTANTIATE_TEST_SUITE_P(, DroppedToken,
                         testing::Values(test::kBfloat16, test::kFloat16, test::kCallKinds[3]),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace zerodiff::compare
