// Whether two results of the stages after insertion are the same, and where they first differ.
#pragma once

#include <string>

#include "fixtures/layer_call.h"

namespace zerodiff::oracle {

// Empty if the five outputs of sections 10 to 13 agree: presence, type, shape and the bits of every
// element, NaNs of index_score and attn_output as a class. Otherwise one line that names the first
// differing element, both values and how many elements of that output differ.
std::string attention_difference(const Outputs& expected, const Outputs& got);

// The same for one tensor; `name` goes into the line.
std::string tensor_difference(const std::string& name, const Tensor& expected, const Tensor& got);

}  // namespace zerodiff::oracle
