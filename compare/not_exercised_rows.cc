// What a call cannot show about norm, RoPE and the rows of the batch.
#include <algorithm>
#include <array>

#include "compare/not_exercised_rules.h"

namespace zerodiff::compare {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
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

constexpr std::array kRules{
    Rule{"zero_rows", zero_rows},
    Rule{"equal_norm_weights", equal_norm_weights},
    Rule{"position_zero_only", position_zero_only},
    Rule{"full_rotary", full_rotary},
    Rule{"no_padding_rows", no_padding_rows},
    Rule{"no_empty_rows", no_empty_rows},
    Rule{"single_kv_head", single_kv_head},
    Rule{"single_request", single_request},
};

}  // namespace

std::span<const Rule> row_rules() {
  return kRules;
}

}  // namespace zerodiff::compare
