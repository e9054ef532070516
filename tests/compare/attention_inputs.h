// Calls with random q and caches, and the stages after insertion on them.
#pragma once

#include <cstdint>
#include <vector>

#include "compare/attention_check.h"
#include "fixtures/layer_call.h"
#include "tests/reference/attention_calls.h"

namespace zerodiff::compare {

struct AttentionCase {
  LayerCall call;
  Outputs outputs;  // of the reference: insertion's are random, the others follow from them

  AttentionInputs inputs() const {
    return {&outputs.q, &test::k_pool(call, outputs), &test::v_pool(call, outputs),
            &outputs.sparse_block_table, &outputs.sparse_context_lens};
  }
  // The check of `output` on the case's own inputs.
  AttentionCheck check(const Tensor& output, const AccumulateRules& rules = {}) const {
    return check_attention(call, inputs(), output, rules,
                           {.threads = 1, .most_resolution_rows = 0});
  }
};

// A decode call of `heads` query heads over `kv_heads`, rows at `positions`, whose q and caches are
// normally distributed; `sharpness` times 1 for q, so that scores spread by it. Scales of fp8
// caches lie in [0.5, 1.5].
AttentionCase random_case(const test::CallKind& kind, std::uint64_t seed,
                          const std::vector<std::int64_t>& positions, std::int64_t heads = 4,
                          std::int64_t kv_heads = 2, float sharpness = 1, std::int64_t topk = 16);

// The stages after insertion on what the case's insertion outputs hold, index scores kept.
void run_stages(AttentionCase& attention);

}  // namespace zerodiff::compare
