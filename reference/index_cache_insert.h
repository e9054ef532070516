// Stage index_cache_insert: one row's index K into the index cache (numerics.md sections 5 to 8).
// Index K is unit-scale and saturating, whatever the call's scale contract says.
#pragma once

#include <cstdint>

#include "fixtures/layer_call.h"
#include "reference/choices.h"
#include "reference/qk_norm_rope.h"

namespace zerodiff::reference {

// Writes the row's index K at `slot` of `index_cache` ([NB, 128, 128]); a negative slot stores
// nothing. Index slots are never rebased.
void insert_index_k(const LayerCall& call, const Choices& choices, std::int64_t slot,
                    const RotatedRow& row, Tensor& index_cache);

}  // namespace zerodiff::reference
