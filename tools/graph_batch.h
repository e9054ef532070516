// Batches for graph replay: a call's rows as graph and as eager batches, with as many live rows as
// wanted, and variants of the call that a captured graph has not seen.
#pragma once

#include <cstdint>

#include "fixtures/layer_call.h"

namespace zerodiff::tools {

// The call as a graph batch of its capacity whose first `live` rows are scheduled (at most as many
// as the call has): slots of the others are -1, page16_slot_mapping is refilled as numerics.md
// section 7 says, requests lose the rows that they no longer have.
LayerCall graph_batch(const LayerCall& call, std::int64_t live);

// The scheduled rows of a graph batch as an eager batch of their own, without padding and without
// the graph-safe buffer.
LayerCall eager_batch(const LayerCall& batch);

// Another call of the same shapes, valid if `call` is: other activations, other scales, blocks of
// the pool exchanged (so other slots and another block table), and, where contexts and the RoPE
// table allow it, other positions and lengths. Contents of the caches are the call's. Equal for
// equal seeds.
LayerCall changed_call(const LayerCall& call, std::uint64_t seed);

}  // namespace zerodiff::tools
