// Whether two results of a layer call are the same, and where they first differ.
#pragma once

#include <string>

#include "fixtures/layer_call.h"

namespace zerodiff::oracle {

// Empty if every output of `got` equals that of `expected` (presence, type, shape and elements);
// otherwise one line that names the first differing element of the first differing output, both
// bit patterns, and how many elements of that output differ.
//
// Elements compare by bits, but computed NaNs are equal as a class: q, index_q and index_cache,
// index_score and attn_output always, K always, V only in an fp8 cache (`auto` copies V's bits).
std::string first_difference(const LayerCall& call, const Outputs& expected, const Outputs& got);

}  // namespace zerodiff::oracle
