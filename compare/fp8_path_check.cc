#include "compare/fp8_path_check.h"

#include <string>
#include <string_view>

#include "reference/scale_contract.h"

namespace zerodiff::compare {
namespace {

std::string words(std::string_view a, std::string_view b, std::string_view c) {
  return std::string(a) + ", from " + std::string(b) + ", " + std::string(c);
}

// The contract of index K and index_q: unit scale, saturating, whatever the other fields say.
reference::ScaleContract index_contract(const LayerConfig& config) {
  reference::ScaleContract contract = reference::scale_contract(config);
  contract.overflow = Overflow::saturate;
  return contract;
}

std::optional<float> suspected_index_scale(const LayerCall& call) {
  if (!call.k_scale.present() || call.k_scale.size() != 1) return std::nullopt;
  return call.k_scale.as<float>()[0];
}

Fp8TensorSpec kv_spec(const LayerCall& call, const std::string& path, const char* tensor) {
  const LayerConfig& config = call.config;
  const bool value = tensor[0] == 'v';
  Fp8TensorSpec spec;
  spec.path = path;
  spec.tensor = tensor;
  spec.format = call.kv_cache_type();
  spec.contract = reference::scale_contract(config);
  spec.declared_code =
      words(name_of(config.scale_op), value ? "model_dtype" : name_of(config.quantize_from),
            name_of(config.overflow));
  spec.declared_scale = name_of(config.scale_granularity);
  return spec;
}

Fp8TensorSpec index_spec(const LayerCall& call, const std::string& path, const char* tensor,
                         std::string_view source) {
  Fp8TensorSpec spec;
  spec.path = path;
  spec.tensor = tensor;
  spec.format = call.index_cache_type();
  spec.contract = index_contract(call.config);
  spec.declared_code = words("unit scale", source, "saturate");
  spec.index = true;
  spec.suspected_scale = suspected_index_scale(call);
  return spec;
}

const std::uint8_t* codes_of(const Tensor& tensor) {
  return tensor.present() ? tensor.as<std::uint8_t>().data() : nullptr;
}

}  // namespace

PathCheck path_check(const LayerCall& call, const PathOutputs& path) {
  const LayerConfig& config = call.config;
  const Outputs& outputs = *path.outputs;
  PathCheck check;
  if (config.kv_cache_dtype) {
    const bool joined = config.kv_storage == KvStorage::block_contiguous;
    check.k_codes = codes_of(joined ? outputs.kv_cache : outputs.k_cache);
    check.v_codes = codes_of(joined ? outputs.kv_cache : outputs.v_cache);
  }
  if (config.index_cache_dtype && !config.skip_index_branch) {
    check.index_k_codes = codes_of(outputs.index_cache);
    check.index_q_codes = codes_of(outputs.index_q);
  }
  if (check.k_codes != nullptr) check.k.emplace(kv_spec(call, path.name, "k"));
  if (check.v_codes != nullptr) check.v.emplace(kv_spec(call, path.name, "v"));
  if (check.index_k_codes != nullptr) {
    check.index_k.emplace(index_spec(call, path.name, "index_k", name_of(config.quantize_from)));
  }
  if (check.index_q_codes != nullptr) {
    check.index_q.emplace(index_spec(call, path.name, "index_q", name_of(config.index_q_from)));
  }
  return check;
}

}  // namespace zerodiff::compare
