#include "reference/reshape_and_cache.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "reference/number_formats.h"

namespace zerodiff::reference {

namespace {

// One head's values, in dim order, to their places. K keeps runs of x dims (16 bytes) together; in
// V neighbouring dims lie x apart.
template <class T>
void place_k(const PagedLayout& layout, PagePlace place, std::int64_t head, const T* values,
             T* cache) {
  T* const first = cache + layout.element(place.page, head, place.offset, 0);
  for (std::int64_t d = 0; d < kHeadDim; d += layout.vector_width) {
    std::memcpy(first + d * kPageSize, values + d, 16);
  }
}

template <class T>
void place_v(const PagedLayout& layout, PagePlace place, std::int64_t head, const T* values,
             T* cache) {
  T* const first = cache + layout.element(place.page, head, place.offset, 0);
  for (std::int64_t d = 0; d < kHeadDim; ++d) first[d * layout.vector_width] = values[d];
}

}  // namespace

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
  const PagePlace place = page_of(slot);
  std::array<std::uint16_t, kHeadDim> k;
  for (std::int64_t head = 0; head < k_layout_.num_kv_heads; ++head) {
    const auto start = static_cast<std::size_t>(head * kHeadDim);
    to_model_dtype(model_dtype_, std::span(row.k).subspan(start, k.size()), k);
    place_k(k_layout_, place, head, k.data(), reinterpret_cast<std::uint16_t*>(k_cache_));
    place_v(v_layout_, place, head, row.v.data() + start,
            reinterpret_cast<std::uint16_t*>(v_cache_));
  }
}

void ReshapeAndCache::store_codes(std::int64_t slot, const RotatedRow& row) const {
  const PagePlace place = page_of(slot);
  const std::int64_t mapped_slot = rebased_ ? unrebase_slot(slot) : slot;
  std::array<float, kHeadDim> values;
  std::array<std::uint8_t, kHeadDim> codes;
  for (std::int64_t head = 0; head < k_layout_.num_kv_heads; ++head) {
    const auto start = static_cast<std::size_t>(head * kHeadDim);
    std::copy_n(row.k.begin() + head * kHeadDim, kHeadDim, values.begin());
    if (contract_.quantize_from == QuantizeFrom::model_dtype) {
      round_to_model_dtype(model_dtype_, values);
    }
    quantize(cache_type_, values, k_scale_.at(head, mapped_slot), contract_, codes);
    place_k(k_layout_, place, head, codes.data(), reinterpret_cast<std::uint8_t*>(k_cache_));

    from_model_dtype(model_dtype_, row.v.subspan(start, values.size()), values);
    quantize(cache_type_, values, v_scale_.at(head, mapped_slot), contract_, codes);
    place_v(v_layout_, place, head, codes.data(), reinterpret_cast<std::uint8_t*>(v_cache_));
  }
}

}  // namespace zerodiff::reference
