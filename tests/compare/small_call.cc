#include "tests/compare/small_call.h"

#include <gtest/gtest.h>

namespace zerodiff::compare {

GeneratorOptions small_options(std::uint64_t seed) {
  GeneratorOptions options;
  options.seed = seed;
  options.config.num_heads = 4;
  options.config.num_kv_heads = 2;
  options.config.num_index_heads = 2;
  options.config.rotary_dim = 64;
  options.config.rms_norm_eps = 1e-6F;
  options.config.sm_scale = 0.088388346F;
  options.config.topk = 2;
  options.config.phase = Phase::prefill;
  options.config.num_tokens = 9;
  options.capacity = 12;
  options.num_requests = 3;
  options.max_context = 400;
  options.empty_row_share = 0.2;
  return options;
}

GeneratorOptions small_fp8_options(ElementType format, std::uint64_t seed) {
  GeneratorOptions options = small_options(seed);
  options.config.kv_cache_dtype = format;
  options.config.index_cache_dtype = format;
  options.k_scale = 0.07F;
  options.v_scale = 0.31F;
  return options;
}

std::vector<CacheKind> cache_kinds() {
  std::vector<CacheKind> kinds;
  for (const KvStorage storage : {KvStorage::separate, KvStorage::block_contiguous}) {
    for (const bool fp8 : {false, true}) {
      GeneratorOptions options =
          fp8 ? small_fp8_options(ElementType::float8_e4m3fn) : small_options();
      options.config.kv_storage = storage;
      kinds.push_back({std::string(name_of(storage)) + (fp8 ? "_fp8" : "_16bit"), options});
    }
  }
  return kinds;
}

std::string name_of_kind(std::size_t index) {
  return cache_kinds().at(index).name;
}

std::span<std::int64_t> int64s(Tensor& tensor) {
  return tensor.as<std::int64_t>();
}

std::vector<std::int64_t> stored_rows(const LayerCall& call) {
  std::vector<std::int64_t> rows;
  const auto positions = call.positions.as<std::int64_t>();
  const auto slots = call.slot_mapping.as<std::int64_t>();
  for (std::int64_t row = 0; row < call.config.num_tokens; ++row) {
    const auto i = static_cast<std::size_t>(row);
    if (positions[i] >= 0 && slots[i] >= 0) rows.push_back(row);
  }
  return rows;
}

std::int64_t coordinate(const Coordinates& where, const std::string& name) {
  for (const auto& [key, value] : where) {
    if (key == name) return value;
  }
  ADD_FAILURE() << "no coordinate " << name;
  return INT64_MIN;
}

std::vector<std::string> coordinate_names(const Coordinates& where) {
  std::vector<std::string> names;
  for (const auto& [name, value] : where) names.push_back(name);
  return names;
}

}  // namespace zerodiff::compare
