// What the judgement of a stage on its path's own inputs rests on. Part of compare/report.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compare/attention_check.h"
#include "compare/headroom.h"
#include "compare/table_check.h"
#include "compare/topk_intervals.h"

namespace zerodiff::compare {

struct StageReport {
  std::string stage;                 // a frozen stage name, "sparse_attention"
  std::int64_t judged = 0;           // elements of scores and attention, rows of the others
  std::int64_t faults = 0;           // of these
  std::vector<std::string> choices;  // of numerics.md section 14: "score_scale", "topk_order", ...
  // What the path lacks, and what stood in: "q: the reference's", "sparse_block_table: made from
  // its topk_index".
  std::vector<std::string> borrowed;
  std::string accumulator;                  // of the bound, where there is one
  std::string p_dtype;                      // likewise, attention only
  std::optional<Headroom> headroom;         // index_score and sparse_attention
  std::optional<Resolution> resolution;     // sparse_attention
  std::optional<SelectionCheck> selection;  // index_topk
  std::optional<TableCheck> table;          // sparse_block_table
  std::vector<std::int64_t> faulty_rows;    // of the table, sparse_attention only; ascending
};

}  // namespace zerodiff::compare
