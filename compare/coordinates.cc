#include "compare/coordinates.h"

#include <cassert>

#include "reference/slot_mapping.h"

namespace zerodiff::compare {
RowFacts row_facts(const LayerCall& call) {
  const auto positions = call.positions.as<std::int64_t>();
  RowFacts facts;
  facts.position.assign(positions.begin(), positions.end());
  facts.request.assign(positions.size(), -1);
  if (!call.query_start_loc.present()) return facts;
  for (std::int64_t row = 0; row < call.config.num_tokens; ++row) {
    facts.request[static_cast<std::size_t>(row)] = reference::request_of_row(call, row);
  }
  return facts;
}

void CoordinateMap::add_token(Coordinates& where, std::int64_t token) const {
  const auto row = static_cast<std::size_t>(token);
  const bool known = token >= 0 && row < rows_->position.size();
  where.emplace_back("token", token);
  where.emplace_back("request", known ? rows_->request[row] : -1);
  where.emplace_back("position", known ? rows_->position[row] : -1);
}

Coordinates CoordinateMap::in_cache(CacheOutput output, std::int64_t flat_index) const {
  const bool index = output == CacheOutput::index_cache;
  const CacheElement element = CacheGeometry(*call_, output).at(flat_index);
  const auto& row_of_slot = index ? written_->row_of_index_slot : written_->row_of_kv_slot;
  const auto slot = static_cast<std::size_t>(element.slot);
  const ElementType type = index ? call_->index_cache_type() : call_->kv_cache_type();
  Coordinates where;
  if (output == CacheOutput::kv_cache) where.emplace_back("plane", element.plane);
  where.emplace_back("slot", element.slot);
  if (!index) {
    where.emplace_back("page", element.page);
    where.emplace_back("offset", element.offset);
  }
  where.emplace_back("block", element.block);
  where.emplace_back(index ? "offset" : "head", index ? element.offset : element.head);
  where.emplace_back("dim", element.dim);
  add_token(where, slot < row_of_slot.size() ? row_of_slot[slot] : -1);
  where.emplace_back("byte_offset", flat_index * static_cast<std::int64_t>(element_size(type)));
  return where;
}

Coordinates CoordinateMap::at(std::string_view output, const Shape& shape,
                              std::int64_t flat_index) const {
  if (const auto cache = cache_output(output)) return in_cache(*cache, flat_index);
  const std::int64_t num_kv_heads = call_->config.num_kv_heads;
  const std::int64_t inner = shape.size() > 1 ? shape.back() : 1;
  const std::int64_t outer = flat_index / inner;
  const std::int64_t column = flat_index % inner;
  Coordinates where;
  if (output == "q" || output == "index_q") {
    add_token(where, outer);
    where.emplace_back("head", column / kHeadDim);
    where.emplace_back("dim", column % kHeadDim);
  } else if (output == "attn_output") {
    add_token(where, outer / shape[1]);
    where.emplace_back("head", outer % shape[1]);
    where.emplace_back("dim", column);
  } else if (output == "topk_index" || output == "index_score") {
    where.emplace_back("kv_head", outer / shape[1]);
    add_token(where, outer % shape[1]);
    where.emplace_back(output == "topk_index" ? "rank" : "block", column);
  } else {
    assert(output == "sparse_block_table" || output == "sparse_context_lens");
    add_token(where, outer / num_kv_heads);
    where.emplace_back("kv_head", outer % num_kv_heads);
    if (output == "sparse_context_lens") return where;
    where.emplace_back("rank", column / kPagesPerBlock);
    where.emplace_back("page_in_block", column % kPagesPerBlock);
  }
  return where;
}

}  // namespace zerodiff::compare
