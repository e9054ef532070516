// From a flat index in an output to what it means: token, request, position, head, dim, slot, page.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compare/report.h"
#include "compare/written_elements.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// What is known about the rows of a call.
struct RowFacts {
  std::vector<std::int64_t> request;   // [T]; -1 for padding, and without query_start_loc
  std::vector<std::int64_t> position;  // [T] as stored: negative for an empty row
};
RowFacts row_facts(const LayerCall& call);

// Coordinates of `flat_index` in the output called `output` (a name of kOutputFields) of a call,
// the output having shape `shape`. -1: no value here. In reading order:
//
//   q, index_q           token, request, position, head, dim
//   k_cache, v_cache     slot, page, offset, block, head, dim, token, request, position,
//   byte_offset kv_cache             plane (0 = K, 1 = V), then as k_cache index_cache slot, block,
//   offset, dim, token, request, position, byte_offset topk_index           kv_head, token,
//   request, position, rank sparse_block_table   token, request, position, kv_head, rank (of the
//   block), page_in_block sparse_context_lens  token, request, position, kv_head attn_output token,
//   request, position, head, dim index_score          kv_head, token, request, position, block (of
//   the request's context)
//
// In the caches, token, request and position are those of the row that writes the slot, offset is
// within the page (within the block in index_cache), page is the id that the rebased slot gives,
// block is the pool's, and byte_offset counts from the start of the tensor.
class CoordinateMap {
 public:
  // All three must outlive it.
  CoordinateMap(const LayerCall& call, const WrittenSlots& written, const RowFacts& rows)
      : call_(&call), written_(&written), rows_(&rows) {}

  Coordinates at(std::string_view output, const Shape& shape, std::int64_t flat_index) const;

 private:
  Coordinates in_cache(CacheOutput output, std::int64_t flat_index) const;
  void add_token(Coordinates& where, std::int64_t token) const;

  const LayerCall* call_;
  const WrittenSlots* written_;
  const RowFacts* rows_;
};

}  // namespace zerodiff::compare
