// Which choices of numerics.md section 14 a path may make: the contract in force.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/layer_config.h"
#include "reference/choices.h"

namespace zerodiff::compare {

// An id of numerics.md section 14 and every value that it knows, the canonical one first.
//
//   rope_contraction   fma_cos, separate, fma_sin
//   rsqrt              0, 1, 2: r within that many ulp
//   sumsq_order        lane_sum128, any
//   norm_materialised  false, true
//   quantize_from, scale_op, overflow, index_q_from   as LayerConfig's
//   score_scale        none, sm_scale_log2e
//   topk_ties          lowest_id, any
//   topk_order         score, any
//   accumulate         in_order, fp32, tensor_fp32, tensor_fp8: the accumulators of free sums
//   p_dtype            model_dtype, fp32, fp8
struct ChoiceId {
  std::string_view id;
  std::vector<std::string_view> values;
};
const std::vector<ChoiceId>& choice_ids();

// The values allowed for each id, the value of the contract in force first; it is what a path must
// have unless another one of the list explains it. An overflow of `inf` exists in float8_e5m2
// only: for other caches it is never in the list, whoever adds it.
class AllowedChoices {
 public:
  // The call's contract, and every value of the choices that need no declaration:
  // rope_contraction, rsqrt, sumsq_order, score_scale, topk_ties, topk_order, accumulate.
  explicit AllowedChoices(const LayerConfig& config);

  // The call's contract alone: one value for each id.
  static AllowedChoices contract_only(const LayerConfig& config);

  // Throws Error (kUsage) for an unknown id.
  const std::vector<std::string>& values(std::string_view id) const;
  bool allows(std::string_view id, std::string_view value) const;

  // Adds a value. Throws Error (kUsage), with `where` in front, for an unknown id or value.
  void allow(std::string_view id, std::string_view value, std::string_view where);
  // Exactly these values, the first of them the contract's. Throws likewise, and for no value.
  void replace(std::string_view id, const std::vector<std::string>& values, std::string_view where);

 private:
  bool has_infinity_ = false;  // the cache's format
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

// Throws Error (kUsage), with `where` in front, for an id or a value that section 14 does not have.
void check_choice(std::string_view id, std::string_view value, std::string_view where);

}  // namespace zerodiff::compare
