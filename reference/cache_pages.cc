#include "reference/cache_pages.h"

#include "reference/cache_layout.h"
#include "reference/number_formats.h"

namespace zerodiff::reference {

CachePages::CachePages(const LayerCall& call, const Tensor& pool, bool is_value)
    : call_(&call),
      pool_(&pool),
      first_plane_((is_value ? v_layout(call) : k_layout(call)).base_page *
                   call.config.num_kv_heads),
      vector_width_(call.cache_vector_width()),
      is_value_(is_value),
      scales_by_slot_(call.config.scale_granularity == ScaleGranularity::head_slot),
      scale_(call, is_value ? call.v_scale : call.k_scale) {
  if (!is_fp8(pool.type()) || scales_by_slot_) return;
  const float scale = scale_.at(0, 0);
  for (std::size_t code = 0; code < values_.size(); ++code) {
    values_[code] = round_to_model_dtype(call.model_dtype(), fp8_values(pool.type())[code] * scale);
  }
}

std::int64_t CachePages::first_slot(std::int64_t folded_id) const {
  const std::int64_t slot = folded_id / call_->config.num_kv_heads * kPageSize;
  return call_->config.kv_storage == KvStorage::block_contiguous ? unrebase_slot(slot) : slot;
}

void CachePages::read(std::int64_t folded_id, std::span<float, kPagePlane> out) const {
  const std::int64_t start = (first_plane_ + folded_id) * kPagePlane;
  if (!is_fp8(pool_->type())) {
    const auto bits =
        pool_->as<std::uint16_t>().subspan(static_cast<std::size_t>(start), out.size());
    from_model_dtype(pool_->type(), bits, out);
    return;
  }
  const std::uint8_t* const codes = pool_->as<std::uint8_t>().data() + start;
  if (scales_by_slot_) return read_scaled_by_slot(folded_id, codes, out);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = values_[codes[i]];
}

void CachePages::read_scaled_by_slot(std::int64_t folded_id, const std::uint8_t* codes,
                                     std::span<float, kPagePlane> out) const {
  const std::int64_t head = folded_id % call_->config.num_kv_heads;
  const std::int64_t slot = first_slot(folded_id);
  std::array<float, kPageSize> scales;
  for (std::int64_t offset = 0; offset < kPageSize; ++offset) {
    scales[static_cast<std::size_t>(offset)] = scale_.at(head, slot + offset);
  }
  const std::array<float, 256>& decoded = fp8_values(pool_->type());
  const std::int64_t x = vector_width_;
  for (std::int64_t i = 0; i < kPagePlane; ++i) {
    const std::int64_t offset =
        is_value_ ? i / (kHeadDim * x) * x + i % x : i % (kPageSize * x) / x;
    const auto element = static_cast<std::size_t>(i);
    out[element] = round_to_model_dtype(
        call_->model_dtype(), decoded[codes[i]] * scales[static_cast<std::size_t>(offset)]);
  }
}

}  // namespace zerodiff::reference
