#include "tests/compare/insertion_variants.h"

#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "reference/index_cache_insert.h"
#include "reference/layer.h"
#include "reference/materialise.h"
#include "reference/number_formats.h"
#include "reference/reshape_and_cache.h"
#include "reference/slot_mapping.h"

namespace zerodiff::compare {
namespace {

using reference::Choices;
using reference::RopeContraction;
using reference::RotatedRow;

// Every head of a row through the stage, with r from the rule.
class VariantRotation {
 public:
  VariantRotation(const LayerCall& call, const Choices& choices, const FactorRule& rule)
      : call_(call), choices_(choices), rule_(rule), rope_table_(call) {}

  void rotate(std::int64_t token, RotatedRow& row) {
    const LayerConfig& config = call_.config;
    const auto elements = static_cast<std::size_t>(config.row_elements());
    rest_ =
        call_.qkv.as<std::uint16_t>().subspan(static_cast<std::size_t>(token) * elements, elements);
    rope_ = rope_table_.row(call_.positions.as<std::int64_t>()[static_cast<std::size_t>(token)]);
    row.q = rotated(config.num_heads, call_.q_norm_weight);
    row.k = rotated(config.num_kv_heads, call_.k_norm_weight);
    row.v = taken(config.num_kv_heads);
    if (config.skip_index_branch) return;
    row.index_q = rotated(config.num_index_heads, call_.index_q_norm_weight);
    row.index_k = rotated(1, call_.index_k_norm_weight);
  }

 private:
  std::span<const std::uint16_t> taken(std::int64_t heads) {
    const auto part = rest_.first(static_cast<std::size_t>(heads * kHeadDim));
    rest_ = rest_.subspan(part.size());
    return part;
  }

  std::vector<float> rotated(std::int64_t heads, const Tensor& weight) {
    const auto bits = taken(heads);
    const auto one_plus_weight = reference::one_plus(weight);
    std::vector<float> values(bits.size());
    reference::from_model_dtype(call_.model_dtype(), bits, values);
    for (std::int64_t head = 0; head < heads; ++head) {
      const reference::HeadSpan x(values.data() + head * kHeadDim, kHeadDim);
      reference::apply_norm(x, rule_(x, call_.config.rms_norm_eps, count_++), one_plus_weight);
      if (choices_.norm_materialised) {
        reference::round_to_model_dtype(call_.model_dtype(), std::span<float>(x));
      }
      reference::apply_rope(x, rope_, choices_.rope_contraction);
    }
    return values;
  }

  const LayerCall& call_;
  const Choices& choices_;
  const FactorRule& rule_;
  reference::RopeTable rope_table_;
  reference::RopeRow rope_;
  std::span<const std::uint16_t> rest_;
  std::int64_t count_ = 0;
};

float moved(float r, int ulps) {
  if (r == 0.0F || !std::isfinite(r)) return r;
  return std::bit_cast<float>(std::bit_cast<std::int32_t>(r) + ulps);
}

auto summed(reference::SumsqOrder order) {
  return [order](reference::ConstHeadSpan x, std::int64_t) {
    return reference::sum_of_squares(x, order);
  };
}

// Two terms at random are added and take part again as their sum, until one is left.
float randomly_summed(reference::ConstHeadSpan x, std::int64_t n) {
  std::mt19937_64 random(static_cast<std::uint64_t>(n));
  std::vector<float> terms;
  for (const float value : x) terms.push_back(value * value);
  while (terms.size() > 1) {
    std::swap(terms[random() % terms.size()], terms.back());
    const float last = terms.back();
    terms.pop_back();
    float& other = terms[random() % terms.size()];
    other = other + last;
  }
  return terms.front();
}

template <class E>
E flipped(E value, E a, E b) {
  return value == a ? b : a;
}

const char* name_of(RopeContraction contraction) {
  if (contraction == RopeContraction::separate) return "separate";
  return contraction == RopeContraction::fma_sin ? "fma_sin" : "fma_cos";
}

Choices choices_of(const std::vector<VariantRow>& rows, const LayerConfig& config) {
  Choices choices;
  for (const VariantRow& row : rows) {
    if (row.choose) row.choose(config, choices);
  }
  return choices;
}

}  // namespace

Outputs insertion_with_factors(const LayerCall& call, const Choices& choices,
                               const FactorRule& rule) {
  Outputs outputs = reference::run_insertion(call, choices, 1);  // shapes, and untouched elements
  const reference::SlotMapping slots = reference::map_slots(call);
  const bool joined = call.config.kv_storage == KvStorage::block_contiguous;
  const reference::ReshapeAndCache caches(call, choices,
                                          joined ? outputs.kv_cache : outputs.k_cache,
                                          joined ? outputs.kv_cache : outputs.v_cache);
  VariantRotation rotation(call, choices, rule);
  RotatedRow row;
  for (std::int64_t t = 0; t < call.capacity(); ++t) {
    const auto i = static_cast<std::size_t>(t);
    rotation.rotate(t, row);
    reference::to_model_dtype(
        outputs.q.type(), row.q,
        outputs.q.as<std::uint16_t>().subspan(i * row.q.size(), row.q.size()));
    caches.store(slots.kv[i], row);
    if (call.config.skip_index_branch) continue;
    reference::materialise_index_q(call, choices, row, t, outputs.index_q);
    reference::insert_index_k(call, choices, slots.index[i], row, outputs.index_cache);
  }
  return outputs;
}

std::vector<VariantRow> variant_rows() {
  using Config = LayerConfig;
  std::vector<VariantRow> rows;
  const auto chosen = [&](std::string name, std::string id, auto choose, bool declared) {
    rows.push_back({std::move(name), std::move(id), choose, {}, {}, declared});
  };
  const auto moving = [&](std::string name, std::function<int(std::int64_t)> move) {
    rows.push_back({std::move(name), "rsqrt", {}, {}, std::move(move), false});
  };
  const auto summing = [&](std::string name, auto sum) {
    rows.push_back({std::move(name), "sumsq_order", {}, sum, {}, false});
  };
  const auto rope = [](RopeContraction contraction) {
    return [contraction](const Config&, Choices& c) { c.rope_contraction = contraction; };
  };
  chosen("rope_separate", "rope_contraction", rope(RopeContraction::separate), false);
  chosen("rope_fma_sin", "rope_contraction", rope(RopeContraction::fma_sin), false);
  moving("rsqrt_plus_2", [](std::int64_t) { return 2; });
  moving("rsqrt_minus_2", [](std::int64_t) { return -2; });
  // What CUDA's rsqrtf was measured to do: -2..+1.
  moving("rsqrt_of_each_head", [](std::int64_t n) {
    return static_cast<int>(static_cast<std::uint64_t>(n) * 2654435761U % 4) - 2;
  });
  summing("sumsq_sequential", summed(reference::SumsqOrder::sequential));
  summing("sumsq_pairwise", summed(reference::SumsqOrder::pairwise));
  summing("sumsq_random", randomly_summed);
  chosen(
      "norm_materialised", "norm_materialised",
      [](const Config&, Choices& c) { c.norm_materialised = true; }, true);
  chosen(
      "quantize_from", "quantize_from",
      [](const Config& config, Choices& c) {
        c.quantize_from =
            flipped(config.quantize_from, QuantizeFrom::fp32, QuantizeFrom::model_dtype);
      },
      true);
  chosen(
      "scale_op", "scale_op",
      [](const Config& config, Choices& c) {
        c.scale_op = flipped(config.scale_op, ScaleOp::divide, ScaleOp::multiply_reciprocal);
      },
      true);
  chosen(
      "overflow", "overflow",
      [](const Config& config, Choices& c) {
        c.overflow = flipped(config.overflow, Overflow::saturate, Overflow::nan);
      },
      true);
  chosen(
      "index_q_from", "index_q_from",
      [](const Config& config, Choices& c) {
        c.index_q_from = flipped(config.index_q_from, IndexQFrom::model_dtype, IndexQFrom::fp32);
      },
      true);
  return rows;
}

Outputs variant(const LayerCall& call, const std::vector<VariantRow>& rows) {
  auto sum = std::function<float(reference::ConstHeadSpan, std::int64_t)>(
      summed(reference::SumsqOrder::lane_sum128));
  std::function<int(std::int64_t)> ulps = [](std::int64_t) { return 0; };
  for (const VariantRow& row : rows) {
    if (row.sum) sum = row.sum;
    if (row.move) ulps = row.move;
  }
  return insertion_with_factors(call, choices_of(rows, call.config),
                                [&](reference::ConstHeadSpan x, float eps, std::int64_t n) {
                                  return moved(reference::reciprocal_rms(sum(x, n), eps, 0),
                                               ulps(n));
                                });
}

std::string value_in(const std::vector<VariantRow>& rows, const LayerConfig& config,
                     const std::string& id) {
  const Choices choices = choices_of(rows, config);
  if (id == "rope_contraction") return name_of(choices.rope_contraction);
  if (id == "norm_materialised") return choices.norm_materialised ? "true" : "false";
  if (id == "quantize_from") {
    return std::string(name_of(choices.quantize_from.value_or(config.quantize_from)));
  }
  if (id == "scale_op") return std::string(name_of(choices.scale_op.value_or(config.scale_op)));
  if (id == "overflow") return std::string(name_of(choices.overflow.value_or(config.overflow)));
  return std::string(name_of(choices.index_q_from.value_or(config.index_q_from)));
}

AllowedChoices allowing(const std::vector<VariantRow>& rows, const LayerConfig& config) {
  AllowedChoices allowed(config);
  for (const VariantRow& row : rows) {
    if (row.declared) allowed.allow(row.id, value_in(rows, config, row.id), "test");
  }
  return allowed;
}

}  // namespace zerodiff::compare
