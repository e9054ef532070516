#include "tests/compare/faulty_calls.h"

#include <cmath>
#include <functional>
#include <ostream>
#include <random>

#include "tests/compare/small_call.h"
#include "tests/oracle/cache_insertion.h"
#include "tests/oracle/layer.h"
#include "tests/oracle/number_formats.h"
#include "tests/oracle/qk_norm_rope.h"

namespace zerodiff::compare {
namespace {

GeneratorOptions fp8_options(std::uint64_t seed) {
  return small_fp8_options(ElementType::float8_e4m3fn, seed);
}

// The oracle's result of a call in which `change` has been made, held against the unchanged call.
FaultyResult with_changed_call(const GeneratorOptions& options,
                               const std::function<void(LayerCall&)>& change,
                               const reference::Choices& choices = {}) {
  FaultyResult result{generate_call(options), {}};
  LayerCall changed = result.call;
  change(changed);
  result.outputs = oracle::run_insertion(changed, choices);
  return result;
}

FaultyResult with_choices(const GeneratorOptions& options, const reference::Choices& choices) {
  return with_changed_call(
      options, [](LayerCall&) {}, choices);
}

FaultyResult rounding_chain(std::uint64_t seed) {
  reference::Choices choices;
  choices.quantize_from = QuantizeFrom::fp32;
  return with_choices(fp8_options(seed), choices);
}

FaultyResult norm_materialised(std::uint64_t seed) {
  reference::Choices choices;
  choices.norm_materialised = true;
  return with_choices(small_options(seed), choices);
}

FaultyResult stale_scale(std::uint64_t seed) {
  return with_changed_call(fp8_options(seed),
                           [](LayerCall& call) { call.k_scale.as<float>()[0] = 0.125F; });
}

FaultyResult scale_applied_twice(std::uint64_t seed) {
  return with_changed_call(fp8_options(seed), [](LayerCall& call) {
    const float scale = call.v_scale.as<float>()[0];
    call.v_scale.as<float>()[0] = scale * scale;
  });
}

FaultyResult other_eps(std::uint64_t seed) {
  GeneratorOptions options = small_options(seed);
  options.activations = ActivationKind::tiny;
  return with_changed_call(options, [](LayerCall& call) { call.config.rms_norm_eps = 1e-5F; });
}

FaultyResult swapped_weights(std::uint64_t seed) {
  return with_changed_call(fp8_options(seed), [](LayerCall& call) {
    std::swap(call.index_k_norm_weight, call.index_q_norm_weight);
  });
}

FaultyResult shifted_positions(std::uint64_t seed) {
  return with_changed_call(small_options(seed), [](LayerCall& call) {
    for (std::int64_t& position : int64s(call.positions)) {
      if (position > 0) --position;
    }
  });
}

FaultyResult positions_of_another_order(std::uint64_t seed) {
  GeneratorOptions options = small_options(seed);
  options.empty_row_share = 0;
  return with_changed_call(options, [](LayerCall& call) {
    const auto positions = int64s(call.positions);
    std::reverse(positions.begin(), positions.begin() + call.config.num_tokens);
  });
}

FaultyResult bfloat16_table(std::uint64_t seed) {
  GeneratorOptions options = small_options(seed);
  options.model_dtype = ElementType::float16;
  return with_changed_call(options, [](LayerCall& call) {
    for (std::uint16_t& bits : call.cos_sin_cache.as<std::uint16_t>()) {
      const double value = oracle::decode(ElementType::float16, bits);
      const auto rounded =
          oracle::encode_model_dtype(ElementType::bfloat16, static_cast<float>(value));
      bits = oracle::encode_model_dtype(
          ElementType::float16, static_cast<float>(oracle::decode(ElementType::bfloat16, rounded)));
    }
  });
}

FaultyResult index_slots_swapped(std::uint64_t seed) {
  GeneratorOptions options = fp8_options(seed);
  options.distinct_index_slots = true;
  return with_changed_call(options,
                           [](LayerCall& call) { call.index_slot_mapping = call.slot_mapping; });
}

// Every row at the slot of the row that stores next.
FaultyResult rows_one_off(std::uint64_t seed) {
  GeneratorOptions options = fp8_options(seed);
  return with_changed_call(options, [](LayerCall& call) {
    const auto slots = int64s(call.slot_mapping);
    const std::vector<std::int64_t> rows = stored_rows(call);
    const std::int64_t first = slots[static_cast<std::size_t>(rows.front())];
    for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
      slots[static_cast<std::size_t>(rows[i])] = slots[static_cast<std::size_t>(rows[i + 1])];
    }
    slots[static_cast<std::size_t>(rows.back())] = first;
  });
}

// The first padding row stored too, at `slot_of(call)`.
FaultyResult padding_stored(std::uint64_t seed, std::int64_t (*slot_of)(const LayerCall&)) {
  return with_changed_call(fp8_options(seed), [&](LayerCall& call) {
    const auto row = static_cast<std::size_t>(call.config.num_tokens);
    int64s(call.slot_mapping)[row] = slot_of(call);
    int64s(call.index_slot_mapping)[row] = slot_of(call);
    if (int64s(call.positions)[row] < 0) int64s(call.positions)[row] = 0;
    ++call.config.num_tokens;
  });
}

FaultyResult padding_at_the_end(std::uint64_t seed) {
  return padding_stored(seed, [](const LayerCall& call) { return call.num_slots() - 1; });
}

FaultyResult padding_at_zero(std::uint64_t seed) {
  return padding_stored(seed, [](const LayerCall&) { return std::int64_t{0}; });
}

FaultyResult smaller_blocks(std::uint64_t seed) {
  return with_changed_call(small_options(seed), [](LayerCall& call) {
    const auto table = call.block_table.as<std::int32_t>();
    const auto starts = call.query_start_loc.as<std::int32_t>();
    for (const std::int64_t row : stored_rows(call)) {
      std::size_t request = 0;
      while (starts[request + 1] <= row) ++request;
      const std::int64_t position = int64s(call.positions)[static_cast<std::size_t>(row)];
      const auto entry = request * static_cast<std::size_t>(call.block_table.dim(1)) +
                         static_cast<std::size_t>(position / 128);
      // Offsets counted in pages of 16 instead of in the block.
      const std::int64_t slot = table[entry] * std::int64_t{128} + position % 16;
      int64s(call.slot_mapping)[static_cast<std::size_t>(row)] = slot;
      int64s(call.index_slot_mapping)[static_cast<std::size_t>(row)] = slot;
    }
  });
}

void put16(Tensor& tensor, std::int64_t element, float value) {
  tensor.as<std::uint16_t>()[static_cast<std::size_t>(element)] =
      oracle::encode_model_dtype(tensor.type(), value);
}

// V of rows without a slot in a joined pool, by the address that page -1 and offset 15 give.
FaultyResult before_the_first_page(std::uint64_t seed) {
  GeneratorOptions options = small_options(seed);
  options.config.kv_storage = KvStorage::block_contiguous;
  FaultyResult result = with_choices(options, {});
  const LayerCall& call = result.call;
  const LayerConfig& config = call.config;
  const std::int64_t row = config.num_tokens;  // the first padding row
  for (std::int64_t head = 0; head < config.num_kv_heads; ++head) {
    const std::int64_t from =
        row * config.row_elements() + (config.num_heads + config.num_kv_heads + head) * 128;
    for (std::int64_t d = 0; d < 128; ++d) {
      const std::int64_t to = ((7 * config.num_kv_heads + head) * 2 + 1) * 1024 + d * 8 + 7;
      result.outputs.kv_cache.as<std::uint16_t>()[static_cast<std::size_t>(to)] =
          call.qkv.as<std::uint16_t>()[static_cast<std::size_t>(from + d)];
    }
  }
  return result;
}

// Rotated dims of q of empty rows: whatever lay before the table.
FaultyResult table_before_its_start(std::uint64_t seed) {
  GeneratorOptions options = small_options(seed);
  options.empty_row_share = 0.4;
  FaultyResult result = with_choices(options, {});
  int64s(result.call.positions)[2] = -1;
  result.outputs = oracle::run_insertion(result.call);
  std::mt19937_64 random(seed);
  const std::int64_t width = result.call.config.num_heads * 128;
  for (std::int64_t row = 0; row < result.call.config.num_tokens; ++row) {
    if (int64s(result.call.positions)[static_cast<std::size_t>(row)] >= 0) continue;
    for (std::int64_t element = row * width; element < (row + 1) * width; ++element) {
      if (element % 128 >= result.call.config.rotary_dim) continue;
      put16(result.outputs.q, element, static_cast<float>(random() % 1000) / 100 - 5);
    }
  }
  return result;
}

// Some heads of q rotated with partners that had been overwritten.
FaultyResult overwritten_partners(std::uint64_t seed) {
  FaultyResult result = with_choices(small_options(seed), {});
  const LayerCall& call = result.call;
  const std::int64_t half = call.config.rotary_dim / 2;
  const oracle::Head weight = oracle::read_head(call.q_norm_weight, 0);
  for (const std::int64_t row : {1, 4, 6}) {
    const std::int64_t position =
        std::max<std::int64_t>(call.positions.as<std::int64_t>()[static_cast<std::size_t>(row)], 0);
    const oracle::Head x = oracle::read_head(call.qkv, row * call.config.row_elements());
    oracle::Head y = oracle::qk_norm(call, {}, x, weight);
    const oracle::Head angles = oracle::read_head(
        call.cos_sin_cache, position * call.config.rotary_dim);  // rotary_dim + what follows
    for (std::int64_t i = 0; i < half; ++i) {
      float& low = y[static_cast<std::size_t>(i)];
      float& high = y[static_cast<std::size_t>(i + half)];
      const float c = angles[static_cast<std::size_t>(i)];
      const float s = angles[static_cast<std::size_t>(i + half)];
      low = std::fma(low, c, -(high * s));
      high = std::fma(high, c, low * s);
    }
    for (std::int64_t d = 0; d < 128; ++d) {
      put16(result.outputs.q, row * call.config.num_heads * 128 + d,
            y[static_cast<std::size_t>(d)]);
    }
  }
  return result;
}

// K of a 16-bit cache multiplied by a scale that the call brings and that is not to be applied.
FaultyResult scaled_16bit_cache(std::uint64_t seed) {
  FaultyResult result{generate_call(small_options(seed)), {}};
  LayerCall& call = result.call;
  call.k_scale = Tensor::zeros(ElementType::float32, {1});
  call.k_scale.as<float>()[0] = 0.37F;
  result.outputs = oracle::run_insertion(call);
  const oracle::Head weight = oracle::read_head(call.k_norm_weight, 0);
  for (const std::int64_t row : stored_rows(call)) {
    for (std::int64_t head = 0; head < call.config.num_kv_heads; ++head) {
      const std::int64_t first =
          row * call.config.row_elements() + (call.config.num_heads + head) * 128;
      oracle::Head z = oracle::rope(
          call, {}, oracle::qk_norm(call, {}, oracle::read_head(call.qkv, first), weight),
          call.positions.as<std::int64_t>()[static_cast<std::size_t>(row)]);
      for (float& value : z) value = value * 0.37F;
      oracle::store_k(call, {}, oracle::slots_of_row(call, row), head, z, result.outputs);
    }
  }
  return result;
}

// V of one head keeps what the pool held.
FaultyResult head_not_stored(std::uint64_t seed) {
  FaultyResult result = with_choices(small_options(seed), {});
  const std::int64_t plane = 16 * 128;
  auto stored = result.outputs.v_cache.as<std::uint16_t>();
  const auto before = result.call.v_cache.as<std::uint16_t>();
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (static_cast<std::int64_t>(i) / plane % 2 == 1) stored[i] = before[i];
  }
  return result;
}

const std::vector<FaultCase> kFaultCases{
    {"rounding_chain", "fp8-rounding-chain", "", {"k", "index_k"}, rounding_chain},
    {"norm_materialised",
     "norm-rounding-point",
     "qk_norm_rope",
     {"q", "k", "index_q", "index_k"},
     norm_materialised},
    {"stale_scale", "scale-stale", "reshape_and_cache", {"k"}, stale_scale},
    {"scale_applied_twice",
     "scale-double-applied",
     "reshape_and_cache",
     {"v"},
     scale_applied_twice},
    {"scaled_16bit_cache",
     "scale-applied-to-unquantised",
     "reshape_and_cache",
     {"k"},
     scaled_16bit_cache},
    {"other_eps",
     "norm-eps-placement",
     "qk_norm_rope",
     {"q", "k", "index_q", "index_k"},
     other_eps},
    {"swapped_weights",
     "norm-wrong-weight",
     "qk_norm_rope",
     {"index_q", "index_k"},
     swapped_weights},
    {"shifted_positions",
     "rope-position-wrong",
     "qk_norm_rope",
     {"q", "k", "index_q", "index_k"},
     shifted_positions},
    {"positions_of_another_order",
     "rope-position-wrong",
     "qk_norm_rope",
     {"q", "k", "index_q", "index_k"},
     positions_of_another_order},
    {"bfloat16_table",
     "rope-table-dtype",
     "qk_norm_rope",
     {"q", "k", "index_q", "index_k"},
     bfloat16_table},
    {"table_before_its_start", "rope-table-oob", "qk_norm_rope", {"q"}, table_before_its_start},
    {"overwritten_partners", "rope-inplace-race", "qk_norm_rope", {"q"}, overwritten_partners},
    {"index_slots_swapped",
     "index-slot-map-swapped",
     "slot_mapping",
     {"index_k"},
     index_slots_swapped},
    {"smaller_blocks",
     "slot-block-size-mismatch",
     "slot_mapping",
     {"k", "v", "index_k"},
     smaller_blocks},
    {"padding_at_the_end",
     "slot-neg1-wraps-last",
     "slot_mapping",
     {"k", "v", "index_k"},
     padding_at_the_end},
    {"padding_at_zero", "slot-pad-to-zero", "slot_mapping", {"k", "v", "index_k"}, padding_at_zero},
    {"before_the_first_page", "slot-neg-oob", "slot_mapping", {"k"}, before_the_first_page},
    {"head_not_stored", "kv-write-dropped", "reshape_and_cache", {"v"}, head_not_stored},
    {"rows_one_off", "misplaced-rows", "reshape_and_cache", {"k", "v"}, rows_one_off},
};

}  // namespace

void PrintTo(const FaultCase& fault, std::ostream* out) {
  *out << fault.name;
}

const std::vector<FaultCase>& fault_cases() {
  return kFaultCases;
}

}  // namespace zerodiff::compare
