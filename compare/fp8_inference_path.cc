// Samples of the fp8 tensors of a path for compare/fp8_inference.h.
#include <algorithm>

#include "compare/fp8_inference.h"
#include "compare/head_contract.h"
#include "compare/hypothesis.h"
#include "compare/mismatch_set.h"
#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

const Tensor& output_of(const LayerCall& call, const Outputs& outputs, Branch branch) {
  const bool joined = call.config.kv_storage == KvStorage::block_contiguous;
  switch (branch) {
    case Branch::k:
      return joined ? outputs.kv_cache : outputs.k_cache;
    case Branch::v:
      return joined ? outputs.kv_cache : outputs.v_cache;
    case Branch::index_q:
      return outputs.index_q;
    case Branch::index_k:
      return outputs.index_cache;
    case Branch::q:
      break;
  }
  return outputs.q;
}

float first_scale(const LayerCall& call, Branch branch) {
  if (branch != Branch::k && branch != Branch::v) return 1;
  const Tensor& scales = branch == Branch::k ? call.k_scale : call.v_scale;
  return scales.present() ? scales.as<float>()[0] : 1.0F;
}

std::vector<HeadAt> stored_heads(const HeadContract& contract, Branch branch) {
  std::vector<HeadAt> heads;
  for (std::int64_t token = 0; token < contract.call().config.num_tokens; ++token) {
    for (std::int64_t head = 0; head < contract.heads(branch); ++head) {
      const HeadAt at{branch, token, head};
      if (contract.place(at, 0) >= 0) heads.push_back(at);
    }
  }
  return heads;
}

void add_samples(const HeadContract& contract, const Tensor& stored, const HeadAt& at,
                 std::vector<Fp8Sample>& samples) {
  const StoredBits bits(stored);
  const Head z = evaluate_head(contract, nullptr, at).z;
  Head rounded = z;
  reference::round_to_model_dtype(contract.call().model_dtype(), rounded);
  const float scale = contract.scale(at);
  const float first = first_scale(contract.call(), at.branch);
  for (std::int64_t d = 0; d < kHeadDim; ++d) {
    const auto i = static_cast<std::size_t>(d);
    samples.push_back({static_cast<std::uint8_t>(bits.at(contract.place(at, d))), z[i], rounded[i],
                       scale, first});
  }
}

DeclaredFp8 declaration_of(const HeadContract& contract, Branch branch) {
  const LayerConfig& config = contract.call().config;
  DeclaredFp8 declared;
  declared.format = contract.stored_type(branch);
  declared.scaled = contract.scaled(branch);
  declared.scale_op = config.scale_op;
  declared.source = config.quantize_from;
  if (branch == Branch::index_q) {
    declared.source =
        config.index_q_from == IndexQFrom::fp32 ? QuantizeFrom::fp32 : QuantizeFrom::model_dtype;
  }
  declared.source_matters = branch != Branch::v;
  declared.overflow = contract.code_contract(branch).overflow;
  declared.granularity = config.scale_granularity;
  return declared;
}

}  // namespace

std::vector<Fp8Inference> infer_fp8_contract(const LayerCall& call, const PathOutputs& path,
                                             std::int64_t most_elements) {
  const HeadContract contract(call);
  std::vector<Fp8Inference> result;
  for (const Branch branch : {Branch::k, Branch::v, Branch::index_k, Branch::index_q}) {
    const bool index = !contract.scaled(branch);
    if (index && call.config.skip_index_branch) continue;
    const Tensor& stored = output_of(call, *path.outputs, branch);
    if (!is_fp8(contract.stored_type(branch)) || !stored.present()) continue;
    const std::vector<HeadAt> heads = stored_heads(contract, branch);
    const auto wanted =
        static_cast<std::size_t>(std::max<std::int64_t>(most_elements / kHeadDim, 1));
    const std::size_t count = std::min(wanted, heads.size());
    std::vector<Fp8Sample> samples;
    for (std::size_t i = 0; i < count; ++i) {
      add_samples(contract, stored, heads[i * heads.size() / count], samples);
    }
    Fp8Inference inference = infer_fp8(samples, declaration_of(contract, branch));
    inference.path = path.name;
    inference.tensor = name_of(branch);
    result.push_back(std::move(inference));
  }
  return result;
}

}  // namespace zerodiff::compare
