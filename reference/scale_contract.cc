#include "reference/scale_contract.h"

#include "reference/number_formats.h"

namespace zerodiff::reference {

ScaleContract scale_contract(const LayerConfig& config, const Choices& choices) {
  return {choices.scale_op.value_or(config.scale_op),
          choices.quantize_from.value_or(config.quantize_from),
          choices.overflow.value_or(config.overflow)};
}

IndexQFrom index_q_source(const LayerConfig& config, const Choices& choices) {
  return choices.index_q_from.value_or(config.index_q_from);
}

std::uint8_t quantize(ElementType format, float value, float scale, const ScaleContract& contract) {
  const float scaled =
      contract.scale_op == ScaleOp::divide ? value / scale : value * (1.0F / scale);
  return encode_fp8(format, scaled, contract.overflow);
}

ScaleReader::ScaleReader(const LayerCall& call, const Tensor& scale) {
  if (!scale.present() || !call.config.kv_cache_dtype) return;
  scales_ = scale.as<float>().data();
  head_stride_ =
      call.config.scale_granularity == ScaleGranularity::head_slot ? call.num_slots() : 0;
}

float ScaleReader::at(std::int64_t head, std::int64_t slot) const {
  if (scales_ == nullptr) return 1.0F;
  return head_stride_ == 0 ? scales_[0] : scales_[head * head_stride_ + slot];
}

}  // namespace zerodiff::reference
