// Attention of a path held against the bound of every element, on the path's own q, caches and
// table (docs/verdicts.md section 1, `bounded`).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compare/accumulate_rules.h"
#include "compare/headroom.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// How far the check can see. Token i of a row is resolved if leaving it out would move some dim of
// the output beyond its bound for certain: p_i |v_i - out| / (1 - p_i) > 2 bound.
struct Resolution {
  std::int64_t tokens = 0;  // (query head, token) pairs that were looked at
  std::int64_t resolved = 0;
  std::int64_t rows = 0;          // rows of the table that were looked at: all, or every n-th
  std::int64_t rows_in_call = 0;  // rows that have tokens

  double share() const {
    return tokens == 0 ? 0 : static_cast<double>(resolved) / static_cast<double>(tokens);
  }
};

// What attention reads. All must outlive the check.
struct AttentionInputs {
  const Tensor* q = nullptr;
  const Tensor* k_pool = nullptr;  // kv_cache, twice, with block_contiguous storage
  const Tensor* v_pool = nullptr;
  const Tensor* table = nullptr;         // [num_tokens*nkv, topk*8]
  const Tensor* context_lens = nullptr;  // [num_tokens*nkv]
};

struct AttentionCheckOptions {
  int threads = 0;                        // 0: one for each core; results do not depend on it
  std::int64_t most_resolution_rows = 6;  // 0: every row
  std::size_t kept_outside = 8;
};

struct AttentionCheck {
  Headroom headroom;
  Resolution resolution;
  // Rows whose table names pages that are not there, or has an impossible length: not judged. That
  // they are is the fault of an earlier stage.
  std::int64_t unreadable_rows = 0;
  std::int64_t first_unreadable_row = -1;  // of the table
  std::vector<std::int64_t> faulty_rows;   // of the table, with an element outside; ascending
};

// How much of its bound a value uses: 0 where NaN meets NaN, infinite where NaN or an infinity meets
// what it should not; nullopt where binary32 may overflow and anything is right.
std::optional<double> headroom_of(ElementType type, double got, double exact, double bound,
                                  bool may_overflow);

// Whether attention can follow that row of the table: a length of 0 to topk*128, and for its live
// pages ids of the row's head inside the pool.
bool readable_row(const LayerCall& call, const AttentionInputs& inputs, std::int64_t row);

// attn_output: [num_tokens, nq, 128] in the model dtype. The verdict of an element:
//   - bounded if |got - exact| <= bound; got may be infinite where the bound reaches past the
//     largest finite value;
//   - where exact is NaN (a NaN among the live inputs), NaN and nothing else;
//   - where binary32 may overflow on the way, also infinities and NaN (Headroom::unbounded);
//   - a row without tokens gives +0 to the bit.
AttentionCheck check_attention(const LayerCall& call, const AttentionInputs& inputs,
                               const Tensor& attn_output, const AccumulateRules& rules,
                               const AttentionCheckOptions& options = {});

}  // namespace zerodiff::compare
