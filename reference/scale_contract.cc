#include "reference/scale_contract.h"

#include <algorithm>
#include <array>

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
  std::uint8_t code = 0;
  quantize(format, {&value, 1}, scale, contract, {&code, 1});
  return code;
}

void quantize(ElementType format, std::span<const float> values, float scale,
              const ScaleContract& contract, std::span<std::uint8_t> codes) {
  std::array<float, kHeadDim> scaled;
  const float reciprocal = 1.0F / scale;
  for (std::size_t start = 0; start < values.size(); start += scaled.size()) {
    const std::size_t count = std::min(scaled.size(), values.size() - start);
    for (std::size_t i = 0; i < count; ++i) {
      const float value = values[start + i];
      scaled[i] = contract.scale_op == ScaleOp::divide ? value / scale : value * reciprocal;
    }
    encode_fp8(format, std::span(scaled).first(count), contract.overflow,
               codes.subspan(start, count));
  }
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
