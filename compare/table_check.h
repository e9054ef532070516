// The sparse block table and its lengths, judged on a selection (docs/numerics.md section 12).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/legal_report.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

struct TableRowDifference {
  Coordinates where;    // token, request, position, kv_head
  std::string problem;  // one line
};

struct TableCheck {
  std::int64_t rows = 0;
  std::int64_t identical = 0;
  std::int64_t reordered = 0;   // the same blocks in another order, the own block last
  std::int64_t not_judged = 0;  // the selection names blocks that the row cannot see
  std::int64_t faults = 0;
  std::vector<TableRowDifference> first_faults;
  std::vector<std::int64_t> faulty_rows;  // token * nkv + head, ascending
};

// `selection` is the topk_index that the path's table was made from, [nkv, num_tokens, topk];
// table and context_lens as the path left them; either may be absent, and then only the other is
// looked at. Throws Error (kInput) for a page id of 2^31 or more.
TableCheck check_table(const LayerCall& call, const Tensor& selection, const Tensor& table,
                       const Tensor& context_lens, std::size_t kept = 8);

}  // namespace zerodiff::compare
