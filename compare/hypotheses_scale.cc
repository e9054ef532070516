// Hypotheses about the scales (docs/faults.md, 1.2).
#include <algorithm>

#include "compare/hypothesis.h"
#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

using reference::ScaleContract;

HeadCodes widened(const std::array<std::uint8_t, kHeadDim>& codes) {
  HeadCodes bits;
  std::copy(codes.begin(), codes.end(), bits.begin());
  return bits;
}

using ScaleOf = std::function<float(const HeadContract&, const HeadAt&)>;

// The contract with another scale.
Mutation scaled_by(ScaleOf scale_of) {
  return {.encode = [scale_of = std::move(scale_of)](const HeadContract& contract, const HeadAt& at,
                                                     const Head& z) {
    std::array<std::uint8_t, kHeadDim> codes;
    reference::quantize(contract.stored_type(at.branch), contract.to_quantise(at.branch, z),
                        scale_of(contract, at), contract.code_contract(at.branch), codes);
    return widened(codes);
  }};
}

// Values multiplied by what `scale_of` gives, then stored without a scale.
Mutation multiplied_by(ScaleOf scale_of) {
  return {.encode = [scale_of = std::move(scale_of)](const HeadContract& contract, const HeadAt& at,
                                                     const Head& z) {
    const ElementType type = contract.stored_type(at.branch);
    const float factor = scale_of(contract, at);
    HeadCodes bits;
    const Head values = is_fp8(type) ? contract.to_quantise(at.branch, z) : z;
    for (std::size_t d = 0; d < bits.size(); ++d) {
      const float value = values[d] * factor;
      bits[d] = is_fp8(type)
                    ? reference::encode_fp8(type, value, contract.code_contract(at.branch).overflow)
                    : reference::to_model_dtype(type, value);
    }
    return bits;
  }};
}

Mutation other_operation() {
  return {.encode = [](const HeadContract& contract, const HeadAt& at, const Head& z) {
    ScaleContract rules = contract.code_contract(at.branch);
    rules.scale_op =
        rules.scale_op == ScaleOp::divide ? ScaleOp::multiply_reciprocal : ScaleOp::divide;
    std::array<std::uint8_t, kHeadDim> codes;
    reference::quantize(contract.stored_type(at.branch), contract.to_quantise(at.branch, z),
                        contract.scale(at), rules, codes);
    return widened(codes);
  }};
}

const Tensor& scale_tensor(const HeadContract& contract, Branch branch) {
  return branch == Branch::v ? contract.call().v_scale : contract.call().k_scale;
}

float entry(const Tensor& scales, std::int64_t index) {
  return scales.as<float>()[static_cast<std::size_t>(index % scales.size())];
}

float other_plane_scale(const HeadContract& contract, const HeadAt& at) {
  return contract.scale({at.branch == Branch::k ? Branch::v : Branch::k, at.token, at.head});
}

class ScaleHypotheses {
 public:
  ScaleHypotheses(const HeadContract& contract, Branch branch, Hypotheses& list)
      : contract_(contract), branch_(branch), list_(list) {}

  void add_of_scaled_cache() {
    add("scale-ignored-write", "stored without the scale",
        scaled_by([](const HeadContract&, const HeadAt&) { return 1.0F; }));
    add("scale-inverted", "multiplied by the scale instead of divided",
        multiplied_by([](const HeadContract& c, const HeadAt& at) { return c.scale(at); }));
    add("scale-write-read-asymmetry",
        branch_ == Branch::k ? "K stored by v_scale" : "V stored by k_scale",
        scaled_by(other_plane_scale));
    add("scale-double-applied", "divided by the scale twice",
        scaled_by(
            [](const HeadContract& c, const HeadAt& at) { return c.scale(at) * c.scale(at); }));
    const bool divides = contract_.code_contract(branch_).scale_op == ScaleOp::divide;
    add("scale-recip-vs-div",
        divides ? "multiplied by the reciprocal, not divided"
                : "divided, not multiplied by the reciprocal",
        other_operation());
    if (contract_.call().config.scale_granularity == ScaleGranularity::head_slot) add_indexing();
  }

  // Tensors that the contract stores without a scale, in a call that has one.
  void add_of_unscaled() {
    const Tensor& scales = scale_tensor(contract_, branch_);
    if (!scales.present()) return;
    const ScaleOf reciprocal = [](const HeadContract& c, const HeadAt& at) {
      return 1.0F / entry(scale_tensor(c, at.branch), 0);
    };
    const ScaleOf direct = [](const HeadContract& c, const HeadAt& at) {
      return entry(scale_tensor(c, at.branch), 0);
    };
    const std::string name = branch_ == Branch::v ? "v_scale" : "k_scale";
    add("scale-applied-to-unquantised", "divided by " + name, multiplied_by(reciprocal));
    add("scale-applied-to-unquantised", "multiplied by " + name, multiplied_by(direct));
  }

 private:
  void add(std::string id, std::string detail, Mutation mutation) {
    list_.push_back(
        {std::move(id), std::move(detail), storing_stage(branch_), {branch_}, std::move(mutation)});
  }

  // Wrong indices into [nkv, slots].
  void add_indexing() {
    using Index = std::function<std::int64_t(const HeadContract&, const HeadAt&, std::int64_t)>;
    const auto indexed = [&](const char* detail, Index index) {
      add("scale-index-wrong", detail,
          scaled_by([index = std::move(index)](const HeadContract& c, const HeadAt& at) {
            const std::int64_t slot =
                c.written().kv_slot_of_row[static_cast<std::size_t>(at.token)];
            if (slot < 0) return 1.0F;
            return entry(scale_tensor(c, at.branch), index(c, at, slot));
          }));
    };
    indexed("scales indexed as [slot][head]",
            [](const HeadContract& c, const HeadAt& at, std::int64_t slot) {
              return slot * c.heads(at.branch) + at.head;
            });
    indexed("scales indexed by the rebased slot",
            [](const HeadContract& c, const HeadAt& at, std::int64_t slot) {
              return at.head * c.call().num_slots() + reference::rebase_slot(slot);
            });
    indexed("head 0's scales used for every head",
            [](const HeadContract&, const HeadAt&, std::int64_t slot) { return slot; });
    indexed("slot 0's scale used for every slot",
            [](const HeadContract& c, const HeadAt& at, std::int64_t) {
              return at.head * c.call().num_slots();
            });
    indexed("one scale used for every head and slot",
            [](const HeadContract&, const HeadAt&, std::int64_t) { return std::int64_t{0}; });
    indexed("scales indexed by the row, not by its slot",
            [](const HeadContract& c, const HeadAt& at, std::int64_t) {
              return at.head * c.call().num_slots() + at.token;
            });
  }

  const HeadContract& contract_;
  Branch branch_;
  Hypotheses& list_;
};

}  // namespace

void add_scale_hypotheses(const HeadContract& contract, Branch branch, Hypotheses& list) {
  ScaleHypotheses family(contract, branch, list);
  if (contract.scaled(branch) && is_fp8(contract.stored_type(branch))) {
    family.add_of_scaled_cache();
  } else {
    family.add_of_unscaled();
  }
}

}  // namespace zerodiff::compare
