// What each implementation does, and where that is known from, stands in docs/contracts.md.
#include <vector>

#include "tools/contract_options.h"

namespace zerodiff::tools {
namespace {

using Choice = std::pair<std::string, std::vector<std::string>>;

// What every GPU kernel leaves open: its hardware rsqrt, the order of its sums, ties and order of a
// selection. `choices` come on top.
Contract gpu_contract(std::string name, std::vector<Choice> choices) {
  Contract contract{std::move(name),
                    {{"rsqrt", {"0", "1", "2"}},
                     {"sumsq_order", {"lane_sum128", "any"}},
                     {"topk_ties", {"lowest_id", "any"}},
                     {"topk_order", {"score", "any"}},
                     {"accumulate", {"in_order", "fp32", "tensor_fp32", "tensor_fp8"}}}};
  contract.choices.insert(contract.choices.end(), choices.begin(), choices.end());
  return contract;
}

}  // namespace

std::span<const Contract> contract_presets() {
  static const std::vector<Contract> kPresets{
      gpu_contract("aiter", {{"quantize_from", {"model_dtype"}},
                             {"scale_op", {"multiply_reciprocal", "divide"}},
                             {"overflow", {"saturate"}},
                             {"index_q_from", {"fp32", "model_dtype"}}}),
      gpu_contract("atom", {{"quantize_from", {"fp32"}},
                            {"overflow", {"saturate"}},
                            {"index_q_from", {"fp32"}},
                            {"score_scale", {"none", "sm_scale_log2e"}}}),
      gpu_contract("sglang", {{"norm_materialised", {"false", "true"}},
                              {"quantize_from", {"model_dtype"}},
                              {"scale_op", {"divide"}},
                              {"overflow", {"nan", "inf"}}}),
      gpu_contract("torch", {{"rope_contraction", {"separate"}},
                             {"quantize_from", {"model_dtype"}},
                             {"scale_op", {"divide"}},
                             {"overflow", {"saturate", "nan", "inf"}}}),
      gpu_contract("vllm", {{"norm_materialised", {"false", "true"}},
                            {"quantize_from", {"model_dtype"}},
                            {"scale_op", {"divide"}},
                            {"overflow", {"saturate"}}}),
  };
  return kPresets;
}

}  // namespace zerodiff::tools
