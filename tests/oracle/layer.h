// The insertion stages of one layer call, written a second time: slow, scalar, one element at a
// time, from docs/numerics.md sections 0 to 9 alone. What reference/ is tested against.
#pragma once

#include "fixtures/layer_call.h"
#include "reference/choices.h"

namespace zerodiff::oracle {

// q, index_q (none with skip_index_branch), and the caches after the call. The call must be valid.
Outputs run_insertion(const LayerCall& call, const reference::Choices& choices = {});

}  // namespace zerodiff::oracle
