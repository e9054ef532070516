// QK-norm and RoPE of one head, one element at a time (numerics.md sections 3 and 4).
#pragma once

#include <array>
#include <cstdint>

#include "fixtures/layer_call.h"
#include "reference/choices.h"

namespace zerodiff::oracle {

using reference::Choices;
using reference::RopeContraction;
using reference::SumsqOrder;

using Head = std::array<float, kHeadDim>;

// 128 elements of a model-dtype tensor, from flat index `first`, decoded.
Head read_head(const Tensor& tensor, std::int64_t first);

float sum_of_squares(const Head& x, SumsqOrder order);

// y of section 3; `weight` is w, without the 1.
Head qk_norm(const LayerCall& call, const Choices& choices, const Head& x, const Head& weight);

// z of section 4 at a stored position; a negative one is read as 0.
Head rope(const LayerCall& call, const Choices& choices, const Head& y, std::int64_t position);

}  // namespace zerodiff::oracle
