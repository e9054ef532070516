#include "tests/oracle/cache_insertion.h"

#include <stdexcept>

#include "tests/oracle/number_formats.h"

namespace zerodiff::oracle {
namespace {

// A model-dtype value rounded from fp32.
float model_dtype_value(const LayerCall& call, float value) {
  return static_cast<float>(
      decode(call.model_dtype(), encode_model_dtype(call.model_dtype(), value)));
}

// The element index of section 8, in a tensor whose pages all have `nkv` heads.
std::int64_t k_element(const LayerCall& call, std::int64_t slot, std::int64_t head,
                       std::int64_t d) {
  const std::int64_t nkv = call.config.num_kv_heads;
  const std::int64_t x = element_size(call.kv_cache_type()) == 1 ? 16 : 8;
  const std::int64_t page = slot / 16;
  const std::int64_t off = slot % 16;
  return ((page * nkv + head) * (128 / x) + d / x) * 16 * x + off * x + d % x;
}

std::int64_t v_element(const LayerCall& call, std::int64_t slot, std::int64_t head,
                       std::int64_t d) {
  const std::int64_t nkv = call.config.num_kv_heads;
  const std::int64_t x = element_size(call.kv_cache_type()) == 1 ? 16 : 8;
  const bool contiguous = call.config.kv_storage == KvStorage::block_contiguous;
  const std::int64_t page = slot / 16 + (contiguous ? 8 : 0);
  const std::int64_t off = slot % 16;
  return ((page * nkv + head) * (16 / x) + off / x) * 128 * x + d * x + off % x;
}

void put(Tensor& tensor, std::int64_t element, std::uint32_t bits) {
  if (element < 0 || element >= tensor.size()) throw std::out_of_range("oracle: past the pool");
  const auto index = static_cast<std::size_t>(element);
  if (element_size(tensor.type()) == 1) {
    tensor.as<std::uint8_t>()[index] = static_cast<std::uint8_t>(bits);
  } else {
    tensor.as<std::uint16_t>()[index] = static_cast<std::uint16_t>(bits);
  }
}

float scale_of(const LayerCall& call, const Tensor& scales, std::int64_t head, std::int64_t slot) {
  const auto values = scales.as<float>();
  if (call.config.scale_granularity == ScaleGranularity::tensor) return values[0];
  return values[static_cast<std::size_t>(head * scales.dim(1) + slot)];
}

std::uint8_t quantise(const LayerCall& call, const Choices& choices, float value, float scale) {
  const Overflow overflow = choices.overflow.value_or(call.config.overflow);
  if (choices.scale_op.value_or(call.config.scale_op) == ScaleOp::divide) {
    const float quotient = value / scale;
    return encode_fp8(call.kv_cache_type(), quotient, overflow);
  }
  const float reciprocal = 1.0F / scale;
  const float product = value * reciprocal;
  return encode_fp8(call.kv_cache_type(), product, overflow);
}

bool quantises_fp32(const LayerCall& call, const Choices& choices) {
  return choices.quantize_from.value_or(call.config.quantize_from) == QuantizeFrom::fp32;
}

}  // namespace

void store_k(const LayerCall& call, const Choices& choices, const RowSlots& slots,
             std::int64_t head, const Head& z, Outputs& outputs) {
  if (slots.kv < 0) return;
  const bool contiguous = call.config.kv_storage == KvStorage::block_contiguous;
  Tensor& cache = contiguous ? outputs.kv_cache : outputs.k_cache;
  for (std::int64_t d = 0; d < 128; ++d) {
    const float value = z[static_cast<std::size_t>(d)];
    std::uint32_t bits = encode_model_dtype(call.model_dtype(), value);
    if (is_fp8(call.kv_cache_type())) {
      const float source = quantises_fp32(call, choices) ? value : model_dtype_value(call, value);
      bits = quantise(call, choices, source, scale_of(call, call.k_scale, head, slots.scale));
    }
    put(cache, k_element(call, slots.kv, head, d), bits);
  }
}

void store_v(const LayerCall& call, const Choices& choices, const RowSlots& slots,
             std::int64_t head, std::int64_t first, Outputs& outputs) {
  if (slots.kv < 0) return;
  const bool contiguous = call.config.kv_storage == KvStorage::block_contiguous;
  Tensor& cache = contiguous ? outputs.kv_cache : outputs.v_cache;
  for (std::int64_t d = 0; d < 128; ++d) {
    std::uint32_t bits = call.qkv.as<std::uint16_t>()[static_cast<std::size_t>(first + d)];
    if (is_fp8(call.kv_cache_type())) {
      const auto value = static_cast<float>(decode(call.model_dtype(), bits));
      bits = quantise(call, choices, value, scale_of(call, call.v_scale, head, slots.scale));
    }
    put(cache, v_element(call, slots.kv, head, d), bits);
  }
}

void store_index_k(const LayerCall& call, const Choices& choices, const RowSlots& slots,
                   const Head& z, Outputs& outputs) {
  if (slots.index < 0) return;
  const ElementType type = call.index_cache_type();
  for (std::int64_t d = 0; d < 128; ++d) {
    const float value = z[static_cast<std::size_t>(d)];
    std::uint32_t bits = encode_model_dtype(call.model_dtype(), value);
    if (is_fp8(type)) {
      const float source = quantises_fp32(call, choices) ? value : model_dtype_value(call, value);
      bits = encode_fp8(type, source, Overflow::saturate);
    }
    put(outputs.index_cache, slots.index * 128 + d, bits);
  }
}

void write_q(const LayerCall& call, const Head& z, std::int64_t first, Outputs& outputs) {
  for (std::int64_t d = 0; d < 128; ++d) {
    const float value = z[static_cast<std::size_t>(d)];
    put(outputs.q, first + d, encode_model_dtype(call.model_dtype(), value));
  }
}

void write_index_q(const LayerCall& call, const Choices& choices, const Head& z, std::int64_t first,
                   Outputs& outputs) {
  const bool from_model_dtype =
      choices.index_q_from.value_or(call.config.index_q_from) == IndexQFrom::model_dtype;
  for (std::int64_t d = 0; d < 128; ++d) {
    const float value = z[static_cast<std::size_t>(d)];
    std::uint32_t bits = encode_model_dtype(call.model_dtype(), value);
    if (is_fp8(call.index_cache_type())) {
      const float source = from_model_dtype ? model_dtype_value(call, value) : value;
      bits = encode_fp8(call.index_cache_type(), source, Overflow::saturate);
    }
    put(outputs.index_q, first + d, bits);
  }
}

}  // namespace zerodiff::oracle
