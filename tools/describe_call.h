// A layer call in one line.
#pragma once

#include <string>

#include "fixtures/layer_call.h"

namespace zerodiff::tools {

// "heads 16/1/1, rotary 64, bf16, kv fp8_e4m3fn, eager decode, 5 tokens": what tells one call of a
// suite from another. Properties that are as usual are not mentioned.
std::string describe_call(const LayerCall& call);

}  // namespace zerodiff::tools
