// Which blocks of its request a token sees (numerics.md sections 10 and 11).
#pragma once

#include <cstdint>

#include "fixtures/layer_call.h"

namespace zerodiff::reference {

inline std::int64_t position_of(const LayerCall& call, std::int64_t row) {
  return call.positions.as<std::int64_t>()[static_cast<std::size_t>(row)];
}

// p / B + 1 for a scheduled row at position p; 0 for an empty row.
inline std::int64_t visible_blocks(const LayerCall& call, std::int64_t row) {
  const std::int64_t position = position_of(call, row);
  return position < 0 ? 0 : position / kBlockSize + 1;
}

// The pool block that holds block `block` of a request: block_table[request][block].
inline std::int64_t pool_block(const LayerCall& call, std::int64_t request, std::int64_t block) {
  const std::int64_t columns = call.block_table.dim(1);
  return call.block_table.as<std::int32_t>()[static_cast<std::size_t>(request * columns + block)];
}

}  // namespace zerodiff::reference
