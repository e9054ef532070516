// Stage reshape_and_cache: one row's K and V into the paged caches (numerics.md sections 5 to 8).
#pragma once

#include <cstdint>

#include "fixtures/layer_call.h"
#include "reference/cache_layout.h"
#include "reference/choices.h"
#include "reference/qk_norm_rope.h"
#include "reference/scale_contract.h"

namespace zerodiff::reference {

// Writes rows into `k_cache` and `v_cache` (the same tensor, kv_cache, with block_contiguous
// storage). The call and the tensors must outlive it. Const and thread-safe for distinct slots.
class ReshapeAndCache {
 public:
  ReshapeAndCache(const LayerCall& call, const Choices& choices, Tensor& k_cache, Tensor& v_cache);

  // `slot` is as the mapping in force holds it (rebased with block_contiguous); a negative one
  // stores nothing.
  void store(std::int64_t slot, const RotatedRow& row) const;

 private:
  void store_bits(std::int64_t slot, const RotatedRow& row) const;
  void store_codes(std::int64_t slot, const RotatedRow& row) const;

  ElementType model_dtype_;
  ElementType cache_type_;
  bool rebased_;
  ScaleContract contract_;
  PagedLayout k_layout_;
  PagedLayout v_layout_;
  ScaleReader k_scale_;
  ScaleReader v_scale_;
  std::byte* k_cache_;
  std::byte* v_cache_;
};

// The K value that is quantised or stored: k̂ = MD(z), or z itself with quantize_from = fp32.
float k_to_quantize(ElementType model_dtype, QuantizeFrom quantize_from, float z);

}  // namespace zerodiff::reference
