// Pages of the K/V pools as attention reads them: k̃ and ṽ of numerics.md section 6.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "fixtures/layer_call.h"
#include "reference/scale_contract.h"

namespace zerodiff::reference {

inline constexpr std::int64_t kPagePlane = kPageSize * kHeadDim;  // elements of one head's page

// Reads K or V planes by their folded id, phys_page * nkv + head, as sparse_block_table lists them.
// The tensors must outlive it. Const and thread-safe.
class CachePages {
 public:
  // pool: k_cache or v_cache, or kv_cache for both with block_contiguous storage.
  CachePages(const LayerCall& call, const Tensor& pool, bool is_value);

  // The plane's elements as floats, in the layout of the cache: with an fp8 cache
  // MD(RN(decode(code) * scale)), otherwise the stored values.
  void read(std::int64_t folded_id, std::span<float, kPagePlane> out) const;

 private:
  void read_scaled_by_slot(std::int64_t folded_id, const std::uint8_t* codes,
                           std::span<float, kPagePlane> out) const;
  std::int64_t first_slot(std::int64_t folded_id) const;

  const LayerCall* call_;
  const Tensor* pool_;
  std::int64_t first_plane_;  // V planes of block_contiguous storage start 8 pages later
  std::int64_t vector_width_;
  bool is_value_;
  bool scales_by_slot_;
  ScaleReader scale_;
  std::array<float, 256> values_{};  // of every code, with one scale for all
};

}  // namespace zerodiff::reference
