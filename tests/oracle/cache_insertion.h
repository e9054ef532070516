// Stores one row into the caches, one element at a time (numerics.md sections 5, 6 and 8).
#pragma once

#include <cstdint>

#include "fixtures/layer_call.h"
#include "tests/oracle/qk_norm_rope.h"
#include "tests/oracle/slot_mapping.h"

namespace zerodiff::oracle {

// Stores the rotated K head `z` of kv head `head`.
void store_k(const LayerCall& call, const Choices& choices, const RowSlots& slots,
             std::int64_t head, const Head& z, Outputs& outputs);

// Stores V of kv head `head`, whose 128 elements start at flat index `first` of qkv.
void store_v(const LayerCall& call, const Choices& choices, const RowSlots& slots,
             std::int64_t head, std::int64_t first, Outputs& outputs);

void store_index_k(const LayerCall& call, const Choices& choices, const RowSlots& slots,
                   const Head& z, Outputs& outputs);

// Writes q or index_q of one head at flat index `first`.
void write_q(const LayerCall& call, const Head& z, std::int64_t first, Outputs& outputs);
void write_index_q(const LayerCall& call, const Choices& choices, const Head& z, std::int64_t first,
                   Outputs& outputs);

}  // namespace zerodiff::oracle
