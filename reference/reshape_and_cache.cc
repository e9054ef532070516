#include "reference/reshape_and_cache.h"

#include "reference/number_formats.h"

namespace zerodiff::reference {

float k_to_quantize(ElementType model_dtype, QuantizeFrom quantize_from, float z) {
  return quantize_from == QuantizeFrom::fp32 ? z : round_to_model_dtype(model_dtype, z);
}

ReshapeAndCache::ReshapeAndCache(const LayerCall& call, const Choices& choices, Tensor& k_cache,
                                 Tensor& v_cache)
    : model_dtype_(call.model_dtype()),
      cache_type_(call.kv_cache_type()),
      rebased_(call.config.kv_storage == KvStorage::block_contiguous),
      contract_(scale_contract(call.config, choices)),
      k_layout_(k_layout(call)),
      v_layout_(v_layout(call)),
      k_scale_(call, call.k_scale),
      v_scale_(call, call.v_scale),
      k_cache_(k_cache.bytes().data()),
      v_cache_(v_cache.bytes().data()) {}

void ReshapeAndCache::store(std::int64_t slot, const RotatedRow& row) const {
  if (slot < 0) return;
  if (is_fp8(cache_type_)) {
    store_codes(slot, row);
  } else {
    store_bits(slot, row);
  }
}

void ReshapeAndCache::store_bits(std::int64_t slot, const RotatedRow& row) const {
  auto* const k = reinterpret_cast<std::uint16_t*>(k_cache_);
  auto* const v = reinterpret_cast<std::uint16_t*>(v_cache_);
  const auto [page, offset] = page_of(slot);
  for (std::int64_t head = 0; head < k_layout_.num_kv_heads; ++head) {
    const auto start = static_cast<std::size_t>(head * kHeadDim);
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      const auto i = start + static_cast<std::size_t>(d);
      k[k_layout_.element(page, head, offset, d)] = to_model_dtype(model_dtype_, row.k[i]);
      v[v_layout_.element(page, head, offset, d)] = row.v[i];
    }
  }
}

void ReshapeAndCache::store_codes(std::int64_t slot, const RotatedRow& row) const {
  auto* const k = reinterpret_cast<std::uint8_t*>(k_cache_);
  auto* const v = reinterpret_cast<std::uint8_t*>(v_cache_);
  const auto [page, offset] = page_of(slot);
  const std::int64_t mapped_slot = rebased_ ? unrebase_slot(slot) : slot;
  for (std::int64_t head = 0; head < k_layout_.num_kv_heads; ++head) {
    const auto start = static_cast<std::size_t>(head * kHeadDim);
    const float k_scale = k_scale_.at(head, mapped_slot);
    const float v_scale = v_scale_.at(head, mapped_slot);
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      const auto i = start + static_cast<std::size_t>(d);
      const float k_value = k_to_quantize(model_dtype_, contract_.quantize_from, row.k[i]);
      const float v_value = from_model_dtype(model_dtype_, row.v[i]);
      k[k_layout_.element(page, head, offset, d)] =
          quantize(cache_type_, k_value, k_scale, contract_);
      v[v_layout_.element(page, head, offset, d)] =
          quantize(cache_type_, v_value, v_scale, contract_);
    }
  }
}

}  // namespace zerodiff::reference
