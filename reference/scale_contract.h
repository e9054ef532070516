// The fp8 scale contract (numerics.md section 6): what is quantised, and how.
#pragma once

#include <cstdint>
#include <span>

#include "fixtures/layer_call.h"
#include "reference/choices.h"

namespace zerodiff::reference {

// The contract in force for K and V: the call's declaration, unless `choices` names another.
struct ScaleContract {
  ScaleOp scale_op = ScaleOp::multiply_reciprocal;
  QuantizeFrom quantize_from = QuantizeFrom::model_dtype;
  Overflow overflow = Overflow::saturate;
};
ScaleContract scale_contract(const LayerConfig& config, const Choices& choices = {});

// The source of index_q's code in an fp8 index cache, in the same way.
IndexQFrom index_q_source(const LayerConfig& config, const Choices& choices = {});

// The code of x̂ under a scale: encode(x̂ * (1/scale)) or encode(x̂ / scale).
std::uint8_t quantize(ElementType format, float value, float scale, const ScaleContract& contract);

// The same for many values of one scale.
void quantize(ElementType format, std::span<const float> values, float scale,
              const ScaleContract& contract, std::span<std::uint8_t> codes);

// The scale tensor of K or V, read by (kv head, slot). `slot` is as mapped, before any rebase.
class ScaleReader {
 public:
  ScaleReader(const LayerCall& call, const Tensor& scale);
  // 1 if the call has no scales, as with `auto` caches.
  float at(std::int64_t head, std::int64_t slot) const;

 private:
  const float* scales_ = nullptr;
  std::int64_t head_stride_ = 0;  // 0 for granularity `tensor`
};

}  // namespace zerodiff::reference
