#include "reference/index_cache_insert.h"

#include "reference/number_formats.h"
#include "reference/reshape_and_cache.h"
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
  const QuantizeFrom source = scale_contract(call.config, choices).quantize_from;
  const auto codes = index_cache.as<std::uint8_t>().subspan(start, kElements);
  for (std::size_t d = 0; d < kElements; ++d) {
    codes[d] =
        encode_fp8(index_cache.type(), k_to_quantize(call.model_dtype(), source, row.index_k[d]),
                   Overflow::saturate);
  }
}

}  // namespace zerodiff::reference
