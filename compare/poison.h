// Poison (docs/verdicts.md, section 2): what no live token reads must not matter.
#pragma once

#include <cstdint>

#include "fixtures/layer_call.h"

namespace zerodiff::compare {

enum class PoisonFill : std::uint8_t {
  nan,     // every poisoned element a NaN
  finite,  // every poisoned element a large finite number
};

// A copy of the call in which the caches keep the slots that hold tokens of some request (positions
// below its seq_lens, found through the block table), and every other slot, in all caches, is filled:
// unwritten slots, the tail of each request's last block, blocks that no table names. The qkv of
// padding rows is filled, too. Outputs of the scheduled rows must equal those of the call itself,
// and so must the cache slots that were kept.
//
// Needs the attention metadata. Slots that this call itself writes count as kept.
LayerCall poisoned_call(const LayerCall& call, PoisonFill fill);

}  // namespace zerodiff::compare
