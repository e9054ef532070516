#include "reference/index_cache_insert.h"

#include <algorithm>
#include <array>

#include "reference/number_formats.h"
#include "reference/scale_contract.h"

namespace zerodiff::reference {

void insert_index_k(const LayerCall& call, const Choices& choices, std::int64_t slot,
                    const RotatedRow& row, Tensor& index_cache) {
  if (slot < 0) return;
  constexpr auto kElements = static_cast<std::size_t>(kHeadDim);
  const std::size_t start = static_cast<std::size_t>(slot) * kElements;
  if (!is_fp8(index_cache.type())) {
    to_model_dtype(index_cache.type(), row.index_k,
                   index_cache.as<std::uint16_t>().subspan(start, kElements));
    return;
  }
  std::array<float, kElements> values;
  std::copy(row.index_k.begin(), row.index_k.end(), values.begin());
  if (scale_contract(call.config, choices).quantize_from == QuantizeFrom::model_dtype) {
    round_to_model_dtype(call.model_dtype(), values);
  }
  encode_fp8(index_cache.type(), values, Overflow::saturate,
             index_cache.as<std::uint8_t>().subspan(start, kElements));
}

}  // namespace zerodiff::reference
