// The fp8 tensors of one path: where their codes lie, and the check of each.
#pragma once

#include <cstdint>
#include <optional>

#include "compare/fp8_contract.h"
#include "compare/fp8_tensor_check.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// A tensor that the path lacks, or that is not fp8, has neither codes nor a check.
struct PathCheck {
  const std::uint8_t* k_codes = nullptr;  // of k_cache, or of kv_cache
  const std::uint8_t* v_codes = nullptr;
  const std::uint8_t* index_k_codes = nullptr;
  const std::uint8_t* index_q_codes = nullptr;
  std::optional<Fp8TensorCheck> k;
  std::optional<Fp8TensorCheck> v;
  std::optional<Fp8TensorCheck> index_k;
  std::optional<Fp8TensorCheck> index_q;
};

// Checks by the contract that the call declares, nothing added yet. `path` must outlive it.
PathCheck path_check(const LayerCall& call, const PathOutputs& path);

}  // namespace zerodiff::compare
