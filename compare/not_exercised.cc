#include "compare/not_exercised.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

using Why = std::optional<std::string>;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

Why when(bool holds, std::string why) {
  if (!holds) return std::nullopt;
  return why;
}

// A call, and what several rules ask about it.
struct Facts {
  const LayerCall& call;
  const Fp8ContractReport& fp8;
  std::vector<std::int64_t> positions;  // of scheduled rows that are not empty
  std::vector<std::int64_t> slots;      // of rows that store, before any rebase
  std::vector<float> k_scales;          // those in use; none with `auto`
  std::vector<float> v_scales;

  const LayerConfig& config() const { return call.config; }
  bool fp8_kv() const { return config().kv_cache_dtype.has_value(); }
};

std::vector<float> scales_in_use(const LayerCall& call, const Tensor& scale,
                                 const std::vector<std::int64_t>& slots) {
  if (!call.config.kv_cache_dtype || !scale.present()) return {};
  const auto values = scale.as<float>();
  if (call.config.scale_granularity == ScaleGranularity::tensor) return {values[0]};
  std::vector<float> used;
  for (std::int64_t head = 0; head < call.config.num_kv_heads; ++head) {
    for (const std::int64_t slot : slots)
      used.push_back(values[at(head * call.num_slots() + slot)]);
  }
  return used;
}

Facts facts_of(const LayerCall& call, const Fp8ContractReport& fp8) {
  Facts facts{call, fp8, {}, {}, {}, {}};
  const auto positions = call.positions.as<std::int64_t>();
  const auto slots = call.slot_mapping.as<std::int64_t>();
  for (std::size_t row = 0; row < at(call.config.num_tokens); ++row) {
    if (positions[row] < 0) continue;
    facts.positions.push_back(positions[row]);
    if (slots[row] >= 0) facts.slots.push_back(slots[row]);
  }
  facts.k_scales = scales_in_use(call, call.k_scale, facts.slots);
  facts.v_scales = scales_in_use(call, call.v_scale, facts.slots);
  return facts;
}

bool all_are(const std::vector<float>& values, float wanted) {
  return !values.empty() &&
         std::all_of(values.begin(), values.end(), [&](float v) { return v == wanted; });
}

bool power_of_two(float value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5F;
}

Why unit_scales(const Facts& facts) {
  const bool k = all_are(facts.k_scales, 1);
  const bool v = all_are(facts.v_scales, 1);
  const std::string which = k && v ? "k_scale and v_scale are" : k ? "k_scale is" : "v_scale is";
  return when(k || v, which + " 1, so a missing or inverted scale cannot show");
}

Why equal_scales(const Facts& facts) {
  return when(!facts.k_scales.empty() && facts.k_scales == facts.v_scales,
              "k_scale and v_scale are equal, so one in the other's place cannot show");
}

Why power_of_two_scales(const Facts& facts) {
  std::vector<float> all = facts.k_scales;
  all.insert(all.end(), facts.v_scales.begin(), facts.v_scales.end());
  return when(!all.empty() && std::all_of(all.begin(), all.end(), power_of_two),
              "every scale is a power of two, so dividing and multiplying by the reciprocal agree");
}

Why uniform_scales(const Facts& facts) {
  const bool per_slot = facts.config().scale_granularity == ScaleGranularity::head_slot;
  return when(per_slot && !facts.k_scales.empty() &&
                  all_are(facts.k_scales, facts.k_scales.front()) &&
                  all_are(facts.v_scales, facts.v_scales.front()),
              "all scales of the stored slots are equal, so a wrong head or slot of a scale cannot "
              "show");
}

Why no_fp8_kv_cache(const Facts& facts) {
  return when(!facts.fp8_kv(), "K and V are stored in the model dtype, so no scale is applied");
}

Why no_16bit_cache(const Facts& facts) {
  return when(facts.fp8_kv(),
              "the K/V cache is fp8 (x = 16 only), where the V layout equals plain "
              "[head][dim][page]");
}

Why no_fp8_index_cache(const Facts& facts) {
  return when(!facts.config().skip_index_branch && !facts.config().index_cache_dtype,
              "index K is stored in the model dtype, so its fp8 conversion cannot show");
}

Why index_branch_skipped(const Facts& facts) {
  return when(facts.config().skip_index_branch,
              "the call skips the index branch, so index_q, index K and the selection do not run");
}

Why topk_covers_context(const Facts& facts) {
  const bool covered =
      std::all_of(facts.positions.begin(), facts.positions.end(),
                  [&](std::int64_t p) { return p / kBlockSize + 1 <= facts.config().topk; });
  return when(covered && !facts.config().skip_index_branch,
              "every row sees at most topk (" + std::to_string(facts.config().topk) +
                  ") blocks, so all are selected whatever their scores");
}

Why zero_rows(const Facts& facts) {
  const auto bits = facts.call.qkv.as<std::uint16_t>();
  const auto elements = at(facts.config().row_elements());
  std::int64_t zero = 0;
  for (std::size_t row = 0; row < at(facts.config().num_tokens); ++row) {
    const auto values = bits.subspan(row * elements, elements);
    zero += std::all_of(values.begin(), values.end(),
                        [](std::uint16_t v) { return (v & 0x7FFF) == 0; });
  }
  return when(zero > 0, std::to_string(zero) +
                            " scheduled rows of qkv are all zero and show neither norm nor RoPE");
}

Why equal_norm_weights(const Facts& facts) {
  const std::array<const Tensor*, 4> weights{&facts.call.q_norm_weight, &facts.call.k_norm_weight,
                                             &facts.call.index_q_norm_weight,
                                             &facts.call.index_k_norm_weight};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    for (std::size_t j = i + 1; j < weights.size(); ++j) {
      if (weights[i]->present() && identical(*weights[i], *weights[j])) {
        return "two branches have the same norm weight, so one in the other's place cannot show";
      }
    }
  }
  return std::nullopt;
}

Why position_zero_only(const Facts& facts) {
  const bool zero = std::all_of(facts.positions.begin(), facts.positions.end(),
                                [](std::int64_t p) { return p == 0; });
  return when(zero, "every row is at position 0, where RoPE changes nothing");
}

Why full_rotary(const Facts& facts) {
  return when(facts.config().rotary_dim == kHeadDim,
              "rotary_dim is the whole head, so the dims that RoPE passes through cannot show");
}

Why no_padding_rows(const Facts& facts) {
  return when(facts.call.capacity() == facts.config().num_tokens,
              "the batch has no padding row, so a padding row that stores cannot show");
}

Why no_empty_rows(const Facts& facts) {
  return when(std::ssize(facts.positions) == facts.config().num_tokens,
              "no scheduled row is empty, so an empty row that stores cannot show");
}

Why single_kv_head(const Facts& facts) {
  return when(facts.config().num_kv_heads == 1,
              "there is one kv head, so a wrong head offset cannot show");
}

Why single_request(const Facts& facts) {
  return when(facts.call.seq_lens.present() && facts.call.seq_lens.size() == 1,
              "there is one request, so a row read as another request's cannot show");
}

Why no_attention_metadata(const Facts& facts) {
  return when(!facts.call.has_attention_metadata(),
              "block_table, seq_lens or query_start_loc is absent, so only insertion runs");
}

// Blocks that the table gives each request, read row by row, only those that it can see.
bool table_is_identity(const LayerCall& call) {
  const auto table = call.block_table.as<std::int32_t>();
  const auto lengths = call.seq_lens.as<std::int32_t>();
  const std::int64_t columns = call.block_table.dim(1);
  bool equals_column = true;
  bool equals_count = true;
  std::int64_t count = 0;
  for (std::int64_t request = 0; request < call.block_table.dim(0); ++request) {
    const std::int64_t blocks = (lengths[at(request)] + kBlockSize - 1) / kBlockSize;
    for (std::int64_t column = 0; column < std::min(blocks, columns); ++column, ++count) {
      const std::int64_t block = table[at(request * columns + column)];
      equals_column = equals_column && block == column;
      equals_count = equals_count && block == count;
    }
  }
  return equals_column || equals_count;
}

Why identity_block_table(const Facts& facts) {
  return when(facts.call.has_attention_metadata() && table_is_identity(facts.call),
              "the block table names the blocks in their own order, so reading it wrongly or not "
              "at all cannot show");
}

bool all_zero(const Tensor& tensor) {
  const auto bytes = tensor.bytes();
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

Why caches_all_zero(const Facts& facts) {
  const LayerCall& call = facts.call;
  const bool zero = all_zero(call.k_cache) && all_zero(call.v_cache) && all_zero(call.kv_cache) &&
                    all_zero(call.index_cache);
  return when(zero,
              "all caches are zero before the call, so adding to a slot, and storing zeros "
              "elsewhere, cannot show");
}

Why no_untouched_slots(const Facts& facts) {
  return when(std::ssize(facts.slots) == facts.call.num_slots(),
              "every slot of the pool is written, so a stray store cannot show");
}

Why index_slots_equal_slots(const Facts& facts) {
  const LayerCall& call = facts.call;
  return when(!call.config.skip_index_branch && call.config.kv_storage == KvStorage::separate &&
                  identical(call.index_slot_mapping, call.slot_mapping),
              "index_slot_mapping equals slot_mapping, so one in the other's place cannot show");
}

Why no_graph_buffer(const Facts& facts) {
  const LayerCall& call = facts.call;
  const Tensor& buffer = call.page16_slot_mapping;
  constexpr const char* kSo = ", so a fault of the graph-safe slot mapping cannot show";
  if (!buffer.present()) return std::string("page16_slot_mapping is absent") + kSo;
  if (call.config.kv_storage == KvStorage::separate || buffer.size() != call.capacity() ||
      call.config.batch_mode == BatchMode::eager) {
    return std::string("page16_slot_mapping is not used by this call") + kSo;
  }
  return std::nullopt;
}

Why no_init_blocks(const Facts& facts) {
  return when(facts.config().init_blocks == 0 && !facts.config().skip_index_branch,
              "init_blocks is 0, so forced initial blocks cannot show");
}

Why no_nan_inputs(const Facts& facts) {
  const auto bits = facts.call.qkv.as<std::uint16_t>();
  const bool nan = std::any_of(bits.begin(), bits.end(), [&](std::uint16_t v) {
    return std::isnan(reference::from_model_dtype(facts.call.model_dtype(), v));
  });
  return when(!nan, "qkv has no NaN, so NaN codes and payloads cannot show");
}

// Sum of one count over the tensors of the first path; nullopt if there are none.
std::optional<std::int64_t> codes(const Facts& facts, std::int64_t Fp8TensorReport::*count) {
  if (facts.fp8.tensors.empty()) return std::nullopt;
  std::int64_t sum = 0;
  for (const Fp8TensorReport& tensor : facts.fp8.tensors) {
    if (tensor.path == facts.fp8.tensors.front().path) sum += tensor.*count;
  }
  return sum;
}

Why no_saturation(const Facts& facts) {
  return when(codes(facts, &Fp8TensorReport::saturated) == 0,
              "no stored value saturates, so the overflow rule cannot show");
}

Why no_top_octave(const Facts& facts) {
  return when(codes(facts, &Fp8TensorReport::top_octave_codes) == 0,
              "no stored code is in the format's top octave, so saturating early cannot show");
}

Why no_subnormal_codes(const Facts& facts) {
  return when(codes(facts, &Fp8TensorReport::subnormal_codes) == 0,
              "no stored code is subnormal, so flushing them to zero cannot show");
}

Why no_negative_underflow(const Facts& facts) {
  return when(codes(facts, &Fp8TensorReport::negative_underflows) == 0,
              "no negative value rounds to zero, so a wrong code for it cannot show");
}

struct Rule {
  const char* id;
  Why (*why)(const Facts&);
};

constexpr std::array kRules{
    Rule{"unit_scales", unit_scales},
    Rule{"equal_scales", equal_scales},
    Rule{"power_of_two_scales", power_of_two_scales},
    Rule{"uniform_scales", uniform_scales},
    Rule{"no_fp8_kv_cache", no_fp8_kv_cache},
    Rule{"no_16bit_cache", no_16bit_cache},
    Rule{"no_fp8_index_cache", no_fp8_index_cache},
    Rule{"no_saturation", no_saturation},
    Rule{"no_top_octave", no_top_octave},
    Rule{"no_subnormal_codes", no_subnormal_codes},
    Rule{"no_negative_underflow", no_negative_underflow},
    Rule{"no_nan_inputs", no_nan_inputs},
    Rule{"zero_rows", zero_rows},
    Rule{"equal_norm_weights", equal_norm_weights},
    Rule{"position_zero_only", position_zero_only},
    Rule{"full_rotary", full_rotary},
    Rule{"no_padding_rows", no_padding_rows},
    Rule{"no_empty_rows", no_empty_rows},
    Rule{"single_kv_head", single_kv_head},
    Rule{"single_request", single_request},
    Rule{"identity_block_table", identity_block_table},
    Rule{"caches_all_zero", caches_all_zero},
    Rule{"no_untouched_slots", no_untouched_slots},
    Rule{"index_slots_equal_slots", index_slots_equal_slots},
    Rule{"no_graph_buffer", no_graph_buffer},
    Rule{"no_attention_metadata", no_attention_metadata},
    Rule{"index_branch_skipped", index_branch_skipped},
    Rule{"topk_covers_context", topk_covers_context},
    Rule{"no_init_blocks", no_init_blocks},
};

}  // namespace

std::vector<std::string> not_exercised(const LayerCall& call, const Fp8ContractReport& fp8) {
  const Facts facts = facts_of(call, fp8);
  std::vector<std::string> lines;
  for (const Rule& rule : kRules) {
    if (const Why why = rule.why(facts)) lines.push_back(std::string(rule.id) + ": " + *why);
  }
  return lines;
}

}  // namespace zerodiff::compare
