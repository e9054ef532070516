#include "compare/fitted_hypotheses.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "compare/hypothesis_search.h"
#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

constexpr std::size_t kFittedHeads = 64;

HeadCodes found_bits(const HeadContract& contract, const JudgedTensor& tensor, const HeadAt& at) {
  const StoredBits got(*tensor.got);
  HeadCodes bits;
  for (std::int64_t d = 0; d < kHeadDim; ++d) {
    bits[static_cast<std::size_t>(d)] = got.at(contract.place(at, d));
  }
  return bits;
}

struct Interval {
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
};

// Scales by which `value` rounds to `code`; nullopt if the code tells too little.
std::optional<Interval> scales_of(ElementType format, float value, std::uint32_t code) {
  const auto magnitude = static_cast<std::uint8_t>(code & 0x7F);
  const reference::Fp8Range& range = reference::fp8_range(format);
  if (magnitude < 2 || magnitude >= range.largest_code || !std::isfinite(value)) {
    return std::nullopt;
  }
  const auto decoded = [&](int c) {
    return static_cast<double>(reference::decode_fp8(format, static_cast<std::uint8_t>(c)));
  };
  const double below = 0.5 * (decoded(magnitude - 1) + decoded(magnitude));
  const double above = 0.5 * (decoded(magnitude) + decoded(magnitude + 1));
  const double x = std::abs(static_cast<double>(value));
  return Interval{x / above, x / below};
}

// The number with the fewest digits in an interval.
double simplest_in(const Interval& interval) {
  const double middle = 0.5 * (interval.low + interval.high);
  for (int digits = 1; digits < 9; ++digits) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.*g", digits, middle);
    const double value = std::strtod(text.data(), nullptr);
    if (value >= interval.low && value <= interval.high) return value;
  }
  return middle;
}

std::optional<double> common_scale(const HeadContract& contract, const JudgedTensor& tensor,
                                   const MismatchSet& set) {
  const ElementType format = tensor.expected->type();
  Interval common;
  for (const AffectedHead& head : sample_heads(set.heads, kFittedHeads)) {
    const HeadCodes bits = found_bits(contract, tensor, head.at);
    const Head values =
        contract.to_quantise(tensor.branch, evaluate_head(contract, nullptr, head.at).z);
    for (std::size_t d = 0; d < bits.size(); ++d) {
      const auto scales = scales_of(format, values[d], bits[d]);
      if (!scales) continue;
      common.low = std::max(common.low, scales->low);
      common.high = std::min(common.high, scales->high);
    }
  }
  if (common.low > common.high * (1 + 0x1p-20) || !std::isfinite(common.high)) {
    return std::nullopt;
  }
  return simplest_in(common);
}

void add_scale(const HeadContract& contract, const JudgedTensor& tensor, const MismatchSet& set,
               std::vector<Hypothesis>& list) {
  if (!contract.scaled(tensor.branch) || !is_fp8(tensor.expected->type())) return;
  const auto scale = common_scale(contract, tensor, set);
  if (!scale) return;
  Mutation mutation;
  mutation.encode = [scale = static_cast<float>(*scale)](const HeadContract& c, const HeadAt& at,
                                                         const Head& z) {
    std::array<std::uint8_t, kHeadDim> codes;
    reference::quantize(c.stored_type(at.branch), c.to_quantise(at.branch, z), scale,
                        c.code_contract(at.branch), codes);
    HeadCodes bits;
    std::copy(codes.begin(), codes.end(), bits.begin());
    return bits;
  };
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", *scale);
  list.push_back({"scale-stale",
                  "stored by another scale, about " + std::string(text.data()),
                  storing_stage(tensor.branch),
                  {tensor.branch},
                  std::move(mutation)});
}

constexpr int kRsqrtUlp = 2;

// The bits of a head by another r and contraction.
struct LegalChoice {
  int ulp = 0;
  reference::RopeContraction contraction = reference::RopeContraction::fma_cos;
};

Head normed_by(const HeadContract& contract, const HeadAt& at, const Head& x, int ulp) {
  Head factors = contract.weight(at.branch);
  for (float& factor : factors) factor = 1.0F + factor;
  Head y = x;
  const float ss = reference::sum_of_squares(x, reference::SumsqOrder::lane_sum128);
  reference::apply_norm(y, reference::reciprocal_rms(ss, contract.call().config.rms_norm_eps, ulp),
                        factors);
  return y;
}

Head rotated_with(const HeadContract& contract, const HeadAt& at, const Head& y,
                  reference::RopeContraction contraction) {
  Head z = y;
  reference::apply_rope(z, *contract.rope_row(contract.position(at.token)), contraction);
  return z;
}

// The steps of r from the contract's that give all bits of a head, if any do.
std::optional<int> fitting_ulp(const HeadContract& contract, const JudgedTensor& tensor,
                               const HeadAt& at, reference::RopeContraction contraction) {
  const HeadCodes bits = found_bits(contract, tensor, at);
  const Head x = contract.read(contract.first_element(at));
  for (const int ulp : {0, 1, -1, 2, -2}) {
    const Head y = normed_by(contract, at, x, ulp);
    if (contract.encode(at, rotated_with(contract, at, y, contraction)) == bits) return ulp;
  }
  return std::nullopt;
}

using UlpOfHead = std::map<std::pair<std::int64_t, std::int64_t>, int>;

// Of every affected head, or nothing if one of them has none.
std::optional<UlpOfHead> fitting_ulps(const HeadContract& contract, const JudgedTensor& tensor,
                                      const MismatchSet& set,
                                      reference::RopeContraction contraction) {
  UlpOfHead ulps;
  for (const AffectedHead& head : set.heads) {
    const auto ulp = fitting_ulp(contract, tensor, head.at, contraction);
    if (!ulp) return std::nullopt;
    ulps[{head.at.token, head.at.head}] = *ulp;
  }
  return ulps;
}

void add_legal(const HeadContract& contract, const JudgedTensor& tensor, const MismatchSet& set,
               std::vector<Hypothesis>& list) {
  using reference::RopeContraction;
  if (tensor.branch == Branch::v) return;
  for (const auto& [contraction, words] : {std::pair{RopeContraction::fma_cos, "fma_cos"},
                                           std::pair{RopeContraction::separate, "separate"},
                                           std::pair{RopeContraction::fma_sin, "fma_sin"}}) {
    const auto ulps = fitting_ulps(contract, tensor, set, contraction);
    if (!ulps) continue;
    const auto ulp_of = [ulps = *ulps](const HeadAt& at) {
      const auto found = ulps.find({at.token, at.head});
      return found == ulps.end() ? 0 : found->second;
    };
    Mutation mutation;
    mutation.norm = [ulp_of](const HeadContract& c, const HeadAt& at, const Head& x) {
      return normed_by(c, at, x, ulp_of(at));
    };
    mutation.rope = [contraction = contraction](const HeadContract& c, const HeadAt& at,
                                                const Head& y) {
      return rotated_with(c, at, y, contraction);
    };
    list.push_back({kLegalId,
                    "no fault: a legal r within " + std::to_string(kRsqrtUlp) +
                        " ulp in each head, rope_contraction " + words,
                    "qk_norm_rope",
                    {tensor.branch},
                    std::move(mutation)});
    return;
  }
}

class PositionFit {
 public:
  PositionFit(const HeadContract& contract, const JudgedTensor& tensor)
      : contract_(contract), tensor_(tensor) {
    const LayerCall& call = contract.call();
    if (call.cos_sin_rows.present()) {
      for (const std::int64_t p : call.cos_sin_rows.as<std::int64_t>()) candidates_.insert(p);
    } else {
      for (std::int64_t p = 0; p < std::min(call.cos_sin_cache.dim(0), kTablePositions); ++p) {
        candidates_.insert(p);
      }
    }
    for (std::int64_t token = 0; token < call.capacity(); ++token) {
      candidates_.insert(contract.position(token));
    }
  }

  // The position that a head was rotated by, if there is one that gives all of its bits.
  std::optional<std::int64_t> find(const HeadAt& at) const {
    const HeadCodes bits = found_bits(contract_, tensor_, at);
    const Head y = evaluate_head(contract_, nullptr, at).y;
    for (const std::int64_t position : candidates_) {
      const auto row = contract_.rope_row(position);
      if (!row) continue;
      Head z = y;
      reference::apply_rope(z, *row, contract_.contraction());
      if (contract_.encode(at, z) == bits) return position;
    }
    return std::nullopt;
  }

 private:
  static constexpr std::int64_t kTablePositions = 4096;
  const HeadContract& contract_;
  const JudgedTensor& tensor_;
  std::set<std::int64_t> candidates_;
};

// The position of every affected row of the sample, if each has one.
std::map<std::int64_t, std::int64_t> fitted_positions(const HeadContract& contract,
                                                      const JudgedTensor& tensor,
                                                      const MismatchSet& set) {
  const PositionFit fit(contract, tensor);
  std::map<std::int64_t, std::int64_t> positions;
  for (const AffectedHead& head : sample_heads(set.heads, kFittedHeads)) {
    if (positions.contains(head.at.token)) continue;
    const auto position = fit.find(head.at);
    if (!position) return {};
    positions[head.at.token] = *position;
  }
  return positions;
}

Mutation rotated_by(std::function<std::int64_t(const HeadContract&, std::int64_t)> position) {
  Mutation mutation;
  mutation.rope = [position = std::move(position)](const HeadContract& c, const HeadAt& at,
                                                   const Head& y) {
    const auto row = c.rope_row(position(c, at.token));
    Head z = y;
    if (row) {
      reference::apply_rope(z, *row, c.contraction());
    } else {
      z.fill(std::numeric_limits<float>::quiet_NaN());
    }
    return z;
  };
  return mutation;
}

void add_positions(const HeadContract& contract, const JudgedTensor& tensor, const MismatchSet& set,
                   std::vector<Hypothesis>& list) {
  if (tensor.branch == Branch::v || set.heads.empty()) return;
  const auto positions = fitted_positions(contract, tensor, set);
  if (positions.empty()) return;
  std::set<std::int64_t> shifts;
  for (const auto& [token, position] : positions) {
    shifts.insert(shift_between(contract.position(token), position));
  }
  const auto& [row, position] = *positions.begin();
  std::string detail = "rotated by other positions (row " + std::to_string(row) + " by " +
                       std::to_string(position) + ", not " +
                       std::to_string(contract.position(row)) + ")";
  if (shifts.size() == 1) {
    const std::int64_t shift = *shifts.begin();
    list.push_back({"rope-position-wrong",
                    std::move(detail),
                    "qk_norm_rope",
                    {tensor.branch},
                    rotated_by([shift](const HeadContract& c, std::int64_t token) {
                      return position_plus(c.position(token), shift);
                    })});
    return;
  }
  list.push_back({"rope-position-wrong",
                  std::move(detail),
                  "qk_norm_rope",
                  {tensor.branch},
                  rotated_by([positions](const HeadContract& c, std::int64_t token) {
                    const auto found = positions.find(token);
                    return found == positions.end() ? c.position(token) : found->second;
                  })});
}

}  // namespace

std::vector<Hypothesis> fitted_hypotheses(const HeadContract& contract, const JudgedTensor& tensor,
                                          const MismatchSet& set) {
  std::vector<Hypothesis> list;
  if (set.heads.empty()) return list;
  add_legal(contract, tensor, set, list);
  add_scale(contract, tensor, set, list);
  add_positions(contract, tensor, set, list);
  return list;
}

}  // namespace zerodiff::compare
