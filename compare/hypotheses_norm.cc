// Hypotheses about QK-norm (docs/faults.md, 1.5).
#include <bit>
#include <cmath>

#include "compare/hypothesis.h"
#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

constexpr const char* kStage = "qk_norm_rope";

using Factors = std::function<Head(const HeadContract&, const HeadAt&)>;
using Factor = std::function<float(const HeadContract&, const Head& x)>;

Head one_plus(const Head& weight) {
  Head factors = weight;
  for (float& factor : factors) factor = 1.0F + factor;
  return factors;
}

float sum_of_squares(const Head& x) {
  return reference::sum_of_squares(x, reference::SumsqOrder::lane_sum128);
}

// y with other factors in the place of 1 + w.
Mutation weighted(Factors factors) {
  return {.norm = [factors = std::move(factors)](const HeadContract& contract, const HeadAt& at,
                                                 const Head& x) {
    Head y = x;
    reference::apply_norm(y, contract.norm_factor(x), factors(contract, at));
    return y;
  }};
}

// y with another r.
Mutation with_factor(Factor factor) {
  return {.norm = [factor = std::move(factor)](const HeadContract& contract, const HeadAt& at,
                                               const Head& x) {
    Head y = x;
    reference::apply_norm(y, factor(contract, x), one_plus(contract.weight(at.branch)));
    return y;
  }};
}

ElementType other_16bit(ElementType type) {
  return type == ElementType::bfloat16 ? ElementType::float16 : ElementType::bfloat16;
}

// w's memory read as fp32: element i is made of elements 2i and 2i + 1.
Head read_as_fp32(const Head& weight, ElementType type) {
  Head result;
  for (std::size_t d = 0; d < result.size(); ++d) {
    const std::size_t pair = 2 * d % weight.size();
    const std::uint32_t low = reference::to_model_dtype(type, weight[pair]);
    const std::uint32_t high = reference::to_model_dtype(type, weight[pair + 1]);
    result[d] = std::bit_cast<float>(low | high << 16U);
  }
  return result;
}

Head through_bits(const Head& weight, ElementType type, ElementType read_as) {
  Head result;
  for (std::size_t d = 0; d < result.size(); ++d) {
    result[d] = reference::from_model_dtype(read_as, reference::to_model_dtype(type, weight[d]));
  }
  return result;
}

Head truncated_to_bfloat16(const Head& weight) {
  Head result;
  for (std::size_t d = 0; d < result.size(); ++d) {
    result[d] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(weight[d]) & 0xFFFF0000U);
  }
  return result;
}

// Where y = (x * r) * (1 + w) is rounded to 16 bits.
struct RoundingPoints {
  const char* words;
  bool u, r, scaled, weight, y;
};
constexpr RoundingPoints kRoundingPoints[] = {
    {"y rounded before RoPE", false, false, false, false, true},
    {"x*r rounded before the weight", false, false, true, false, false},
    {"x*r and y rounded", false, false, true, false, true},
    {"the mean of squares rounded", true, false, false, false, false},
    {"r rounded", false, true, false, false, false},
    {"x*r, 1+w and y rounded", false, false, true, true, true},
    {"r, x*r and y rounded", false, true, true, false, true},
};

Mutation rounded_at(const RoundingPoints& points, ElementType type) {
  return {.norm = [points, type](const HeadContract& contract, const HeadAt& at, const Head& x) {
    const auto rounded = [type](bool yes, float value) {
      return yes ? reference::round_to_model_dtype(type, value) : value;
    };
    const float mean = rounded(points.u, sum_of_squares(x) * 0x1p-7F);
    const float u = mean + contract.call().config.rms_norm_eps;
    const float r = rounded(points.r, 1.0F / std::sqrt(u));
    const Head& weight = contract.weight(at.branch);
    Head y;
    for (std::size_t d = 0; d < y.size(); ++d) {
      const float factor = rounded(points.weight, 1.0F + weight[d]);
      y[d] = rounded(points.y, rounded(points.scaled, x[d] * r) * factor);
    }
    return y;
  }};
}

// The model dtype first; kernels written for bfloat16 round float16 models to it as well.
std::vector<ElementType> rounding_types(const HeadContract& contract) {
  const ElementType type = contract.call().model_dtype();
  return {type, other_16bit(type)};
}

using Add = std::function<void(std::string, std::string, Mutation)>;

void add_weights(const HeadContract& contract, Branch branch, const Add& add) {
  add("norm-gemma-offset-missing", "multiplied by w, not by 1+w",
      weighted([](const HeadContract& c, const HeadAt& at) { return c.weight(at.branch); }));
  for (const ElementType type : rounding_types(contract)) {
    add("norm-gemma-offset-bf16", "1+w formed in " + std::string(name_of(type)),
        weighted([type](const HeadContract& c, const HeadAt& at) {
          Head factors = one_plus(c.weight(at.branch));
          reference::round_to_model_dtype(type, factors);
          return factors;
        }));
  }
  for (const Branch other : kBranches) {
    if (other == branch || other == Branch::v) continue;
    if (contract.call().config.skip_index_branch &&
        (other == Branch::index_q || other == Branch::index_k)) {
      continue;
    }
    add("norm-wrong-weight",
        std::string(name_of(other)) + "_norm_weight used for " + name_of(branch),
        weighted(
            [other](const HeadContract& c, const HeadAt&) { return one_plus(c.weight(other)); }));
  }
}

void add_truncated_weights(const HeadContract& contract, const Add& add) {
  const ElementType type = contract.call().model_dtype();
  const auto changed = [&](std::string detail, std::function<Head(const Head&)> change) {
    add("norm-weight-truncated", std::move(detail),
        weighted([change = std::move(change)](const HeadContract& c, const HeadAt& at) {
          return one_plus(change(c.weight(at.branch)));
        }));
  };
  changed("weights read as " + std::string(name_of(other_16bit(type))),
          [type](const Head& w) { return through_bits(w, type, other_16bit(type)); });
  changed("weights read as fp32", [type](const Head& w) { return read_as_fp32(w, type); });
  changed("weights rounded to " + std::string(name_of(other_16bit(type))), [type](const Head& w) {
    Head rounded = w;
    reference::round_to_model_dtype(other_16bit(type), rounded);
    return rounded;
  });
  changed("weights truncated to bfloat16", truncated_to_bfloat16);
}

float root_plus_eps(const HeadContract& contract, const Head& x) {
  return 1.0F / (std::sqrt(sum_of_squares(x) * 0x1p-7F) + contract.call().config.rms_norm_eps);
}

float eps_on_sum(const HeadContract& contract, const Head& x) {
  const float sum = sum_of_squares(x) + contract.call().config.rms_norm_eps;
  return 1.0F / std::sqrt(sum * 0x1p-7F);
}

void add_eps(const Add& add) {
  add("norm-eps-placement", "eps added to the root, not under it", with_factor(root_plus_eps));
  add("norm-eps-placement", "eps added to the sum, not to the mean", with_factor(eps_on_sum));
  constexpr std::pair<float, const char*> kOther[] = {
      {0.0F, "eps left out"}, {1e-5F, "eps 1e-5"},   {1e-4F, "eps 1e-4"},
      {1e-3F, "eps 1e-3"},    {1e-6F, "eps 1e-6"},   {1e-7F, "eps 1e-7"},
      {1e-8F, "eps 1e-8"},    {1e-12F, "eps 1e-12"}, {1.1920929e-7F, "eps 2^-23"}};
  for (const auto& [eps, words] : kOther) {
    add("norm-eps-placement", words, with_factor([eps = eps](const HeadContract&, const Head& x) {
          return reference::reciprocal_rms(sum_of_squares(x), eps, 0);
        }));
  }
}

}  // namespace

void add_norm_hypotheses(const HeadContract& contract, Branch branch, Hypotheses& list) {
  if (branch == Branch::v) return;
  const Add add = [&](std::string id, std::string detail, Mutation mutation) {
    list.push_back({std::move(id), std::move(detail), kStage, {branch}, std::move(mutation)});
  };
  for (const ElementType type : rounding_types(contract)) {
    for (const RoundingPoints& points : kRoundingPoints) {
      add("norm-rounding-point", points.words + std::string(" to ") + std::string(name_of(type)),
          rounded_at(points, type));
    }
  }
  add_weights(contract, branch, add);
  add_truncated_weights(contract, add);
  add_eps(add);
}

}  // namespace zerodiff::compare
