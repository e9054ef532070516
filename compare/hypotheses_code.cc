// Hypotheses about the fp8 number format (docs/faults.md, 1.1).
#include <algorithm>
#include <bit>
#include <cmath>

#include "compare/hypothesis.h"
#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

using reference::ScaleContract;

using EncodeOne = std::function<std::uint8_t(ElementType format, float scaled, Overflow overflow)>;

// The scaled value that the contract encodes.
float scaled_value(float value, float scale, ScaleOp op) {
  return op == ScaleOp::divide ? value / scale : value * (1.0F / scale);
}

// The contract's scaled values, each through `encode`.
Mutation encoding(EncodeOne encode) {
  Mutation mutation;
  mutation.encode = [encode = std::move(encode)](const HeadContract& contract, const HeadAt& at,
                                                 const Head& z) {
    const Head values = contract.to_quantise(at.branch, z);
    const float scale = contract.scale(at);
    const ScaleContract rules = contract.code_contract(at.branch);
    HeadCodes bits;
    for (std::size_t d = 0; d < bits.size(); ++d) {
      bits[d] = encode(contract.stored_type(at.branch),
                       scaled_value(values[d], scale, rules.scale_op), rules.overflow);
    }
    return bits;
  };
  return mutation;
}

ElementType sibling(ElementType format) {
  switch (format) {
    case ElementType::float8_e4m3fn:
      return ElementType::float8_e4m3fnuz;
    case ElementType::float8_e4m3fnuz:
      return ElementType::float8_e4m3fn;
    case ElementType::float8_e5m2:
      return ElementType::float8_e5m2fnuz;
    default:
      return ElementType::float8_e5m2;
  }
}

ElementType other_family(ElementType format) {
  switch (format) {
    case ElementType::float8_e4m3fn:
      return ElementType::float8_e5m2;
    case ElementType::float8_e4m3fnuz:
      return ElementType::float8_e5m2fnuz;
    case ElementType::float8_e5m2:
      return ElementType::float8_e4m3fn;
    default:
      return ElementType::float8_e4m3fnuz;
  }
}

Mutation encoding_as(ElementType written) {
  return encoding([written](ElementType, float scaled, Overflow overflow) {
    const bool has_infinity = reference::fp8_range(written).has_infinity;
    const Overflow rule =
        overflow == Overflow::inf && !has_infinity ? Overflow::saturate : overflow;
    return reference::encode_fp8(written, scaled, rule);
  });
}

bool is_nan_code(ElementType format, std::uint8_t code) {
  return std::isnan(reference::decode_fp8(format, code));
}

std::uint8_t with_sign(std::uint8_t magnitude, float value) {
  return static_cast<std::uint8_t>(magnitude | (std::signbit(value) ? 0x80 : 0));
}

std::uint8_t early_saturated(ElementType format, float scaled, Overflow overflow) {
  const reference::Fp8Range& range = reference::fp8_range(format);
  const std::uint8_t code = reference::encode_fp8(format, scaled, overflow);
  if (is_nan_code(format, code)) return code;
  const int top = range.largest_code >> range.mantissa_bits;
  if ((code & 0x7F) >> range.mantissa_bits < top) return code;
  return with_sign(range.largest_code, scaled);
}

// The code below (towards zero) and, if the value is at or past the middle, the one above it.
std::uint8_t rounded_by_magnitude(ElementType format, float scaled, bool half_away) {
  const std::uint8_t nearest = reference::encode_fp8(format, scaled, Overflow::saturate);
  if (is_nan_code(format, nearest) || !std::isfinite(scaled)) return nearest;
  const auto magnitude = std::abs(static_cast<double>(scaled));
  auto below = static_cast<std::uint8_t>(nearest & 0x7F);
  const auto value_of = [&](std::uint8_t code) {
    return static_cast<double>(reference::decode_fp8(format, code));
  };
  if (below > 0 && value_of(below) > magnitude) --below;
  const bool up = half_away && below < reference::fp8_range(format).largest_code &&
                  magnitude - value_of(below) >= value_of(below + 1) - magnitude;
  const auto code = static_cast<std::uint8_t>(below + (up ? 1 : 0));
  const bool no_negative_zero = reference::fp8_range(format).fnuz && code == 0;
  return no_negative_zero ? code : with_sign(code, scaled);
}

std::uint8_t negative_zero_kept(ElementType format, float scaled, Overflow overflow) {
  const std::uint8_t code = reference::encode_fp8(format, scaled, overflow);
  return code == 0 && std::signbit(scaled) ? 0x80 : code;
}

enum class Beyond : std::uint8_t { modulo, clamped, clamped_signed };

struct IntegerCast {
  const char* words;
  bool of_code;   // of the fp8 value instead of the scaled one
  bool rounded;   // to the nearest, instead of truncated
  Beyond beyond;  // what becomes of values that are no byte
};
constexpr IntegerCast kIntegerCasts[] = {
    {"the fp8 value truncated to an integer, modulo 256", true, false, Beyond::modulo},
    {"the fp8 value truncated to 0..255", true, false, Beyond::clamped},
    {"the fp8 value truncated to -128..127", true, false, Beyond::clamped_signed},
    {"the fp8 value rounded to an integer, modulo 256", true, true, Beyond::modulo},
    {"the fp8 value rounded to 0..255", true, true, Beyond::clamped},
    {"the fp8 value rounded to -128..127", true, true, Beyond::clamped_signed},
    {"the scaled value truncated to an integer, modulo 256", false, false, Beyond::modulo},
    {"the scaled value truncated to 0..255", false, false, Beyond::clamped},
    {"the scaled value truncated to -128..127", false, false, Beyond::clamped_signed},
    {"the scaled value rounded to an integer, modulo 256", false, true, Beyond::modulo},
    {"the scaled value rounded to 0..255", false, true, Beyond::clamped},
    {"the scaled value rounded to -128..127", false, true, Beyond::clamped_signed},
};

std::uint8_t integer_byte(const IntegerCast& cast, ElementType format, float scaled,
                          Overflow overflow) {
  double value = static_cast<double>(scaled);
  if (cast.of_code) {
    const std::uint8_t code = reference::encode_fp8(format, scaled, overflow);
    value = static_cast<double>(reference::decode_fp8(format, code));
  }
  if (std::isnan(value)) return 0;
  value = cast.rounded ? std::nearbyint(value) : std::trunc(value);
  if (cast.beyond == Beyond::clamped) value = std::clamp(value, 0.0, 255.0);
  if (cast.beyond == Beyond::clamped_signed) value = std::clamp(value, -128.0, 127.0);
  value = std::clamp(value, -0x1p31, 0x1p31);
  return static_cast<std::uint8_t>(static_cast<std::int64_t>(value) & 0xFF);
}

// Distance by which the 24-bit significand is moved right to stand on the format's subnormal grid.
int subnormal_shift(ElementType format, float scaled) {
  const reference::Fp8Range& range = reference::fp8_range(format);
  const int smallest_exponent = 1 - range.exponent_bias;
  const int exponent = std::ilogb(scaled);
  return 23 - range.mantissa_bits + smallest_exponent - exponent;
}

constexpr int kWordBits = 32;

bool shift_is_undefined(ElementType format, float scaled) {
  return scaled != 0.0F && std::isfinite(scaled) && subnormal_shift(format, scaled) >= kWordBits;
}

// Whatever the machine makes of a shift by its width or more: the value is not predicted.
Mutation undefined_shift() {
  Mutation mutation;
  mutation.encode = [](const HeadContract& contract, const HeadAt& at, const Head& z) {
    const ElementType format = contract.stored_type(at.branch);
    const ScaleOp op = contract.code_contract(at.branch).scale_op;
    const Head values = contract.to_quantise(at.branch, z);
    HeadCodes bits = contract.encode(at, z);
    for (std::size_t d = 0; d < bits.size(); ++d) {
      if (shift_is_undefined(format, scaled_value(values[d], contract.scale(at), op))) {
        bits[d] = kAnyBits;
      }
    }
    return bits;
  };
  return mutation;
}

Mutation other_source() {
  return {.encode = [](const HeadContract& contract, const HeadAt& at, const Head& z) {
    Head values = z;
    if (!contract.rounds_before_code(at.branch)) {
      reference::round_to_model_dtype(contract.call().model_dtype(), values);
    }
    std::array<std::uint8_t, kHeadDim> codes;
    reference::quantize(contract.stored_type(at.branch), values, contract.scale(at),
                        contract.code_contract(at.branch), codes);
    HeadCodes bits;
    std::copy(codes.begin(), codes.end(), bits.begin());
    return bits;
  }};
}

std::string source_words(const HeadContract& contract, Branch branch) {
  const std::string dtype(name_of(contract.call().model_dtype()));
  return contract.rounds_before_code(branch) ? "quantised from fp32, not from " + dtype
                                             : "quantised from " + dtype + ", not from fp32";
}

void add_rounding(ElementType format,
                  const std::function<void(std::string, std::string, Mutation)>& add) {
  add("fp8-round-half-away", "ties rounded away from zero",
      encoding([](ElementType type, float scaled, Overflow) {
        return rounded_by_magnitude(type, scaled, true);
      }));
  add("fp8-round-half-away", "truncated towards zero",
      encoding([](ElementType type, float scaled, Overflow) {
        return rounded_by_magnitude(type, scaled, false);
      }));
  add("fp8-early-saturation", "the top octave stored as the largest code",
      encoding(early_saturated));
  if (reference::fp8_range(format).fnuz) {
    add("fp8-negzero-to-nan", "the sign kept where a negative value rounds to zero: NaN",
        encoding(negative_zero_kept));
  }
  for (const IntegerCast& cast : kIntegerCasts) {
    add("fp8-byte-numeric-cast", cast.words,
        encoding([&cast](ElementType type, float scaled, Overflow overflow) {
          return integer_byte(cast, type, scaled, overflow);
        }));
  }
  add("fp8-tiny-shift-ub", "values so small that their significand is shifted out of a word",
      undefined_shift());
}

void add_overflow(ElementType format, Overflow declared,
                  const std::function<void(std::string, std::string, Mutation)>& add) {
  for (const Overflow rule : {Overflow::nan, Overflow::saturate, Overflow::inf}) {
    if (rule == declared) continue;
    if (rule == Overflow::inf && !reference::fp8_range(format).has_infinity) continue;
    add("fp8-overflow-to-nan",
        "overflow: " + std::string(name_of(rule)) + ", not " + std::string(name_of(declared)),
        encoding([rule](ElementType type, float scaled, Overflow) {
          return reference::encode_fp8(type, scaled, rule);
        }));
  }
}

}  // namespace

void add_code_hypotheses(const HeadContract& contract, Branch branch, Hypotheses& list) {
  const ElementType format = contract.stored_type(branch);
  if (!is_fp8(format)) return;
  const auto add = [&](std::string id, std::string detail, Mutation mutation) {
    list.push_back(
        {std::move(id), std::move(detail), storing_stage(branch), {branch}, std::move(mutation)});
  };
  if (branch != Branch::v) {
    add("fp8-rounding-chain", source_words(contract, branch), other_source());
  }
  const bool fnuz = reference::fp8_range(format).fnuz;
  add(fnuz ? "fp8-fn-read-as-fnuz" : "fp8-fnuz-read-as-fn",
      "encoded as " + std::string(name_of(sibling(format))) + " into a cache of " +
          std::string(name_of(format)),
      encoding_as(sibling(format)));
  for (const ElementType wrong : {other_family(format), sibling(other_family(format))}) {
    add("fp8-format-family",
        "encoded as " + std::string(name_of(wrong)) + " into a cache of " +
            std::string(name_of(format)),
        encoding_as(wrong));
  }
  add_overflow(format, contract.code_contract(branch).overflow, add);
  add_rounding(format, add);
}

}  // namespace zerodiff::compare
