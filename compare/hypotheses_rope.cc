// Hypotheses about RoPE other than its position (docs/faults.md, 1.6), and of heads that skip it
// (`index-k-unnormed` of section 2).
#include <array>
#include <cmath>
#include <limits>

#include "compare/hypothesis.h"
#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

constexpr const char* kStage = "qk_norm_rope";
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Angle {
  float cos = kNan;
  float sin = kNan;
};

// The contract's rotation of one pair, in place.
void rotate(float& low, float& high, Angle angle) {
  const float a = low;
  const float b = high;
  low = std::fma(a, angle.cos, -(b * angle.sin));
  high = std::fma(b, angle.cos, a * angle.sin);
}

Angle angle_of(const reference::RopeRow& row, std::int64_t i) {
  const auto k = static_cast<std::size_t>(i);
  return {row.cos[k], row.sin[k]};
}

std::size_t dim(std::int64_t d) {
  return static_cast<std::size_t>(d);
}

reference::RopeRow row_at(const HeadContract& contract, const HeadAt& at) {
  return *contract.rope_row(contract.position(at.token));
}

using Rotate = std::function<void(const HeadContract&, const HeadAt&, Head&)>;

Mutation rotated(Rotate change) {
  return {.rope = [change = std::move(change)](const HeadContract& contract, const HeadAt& at,
                                               const Head& y) {
    Head z = y;
    change(contract, at, z);
    return z;
  }};
}

void interleaved(const HeadContract& contract, const HeadAt& at, Head& z) {
  const reference::RopeRow row = row_at(contract, at);
  for (std::int64_t i = 0; i < row.half; ++i) {
    rotate(z[dim(2 * i)], z[dim(2 * i + 1)], angle_of(row, i));
  }
}

// Partners half a head apart instead of half of rotary_dim.
void offset_pairs(const HeadContract& contract, const HeadAt& at, Head& z) {
  const reference::RopeRow row = row_at(contract, at);
  for (std::int64_t i = 0; i < row.half; ++i) {
    rotate(z[dim(i)], z[dim(i + kHeadDim / 2)], angle_of(row, i));
  }
}

// The same for the rotated dims alone.
void offset_partners(const HeadContract& contract, const HeadAt& at, Head& z) {
  const reference::RopeRow row = row_at(contract, at);
  const Head y = z;
  for (std::int64_t i = 0; i < row.half; ++i) {
    const Angle angle = angle_of(row, i);
    const std::int64_t j = i + row.half;
    z[dim(i)] = std::fma(y[dim(i)], angle.cos, -(y[dim(i ^ (kHeadDim / 2))] * angle.sin));
    z[dim(j)] = std::fma(y[dim(j)], angle.cos, y[dim(j ^ (kHeadDim / 2))] * angle.sin);
  }
}

// Element of the RoPE table's memory, whatever row it is in.
float table_element(const HeadContract& contract, std::int64_t element) {
  const Tensor& table = contract.call().cos_sin_cache;
  if (element < 0 || element >= table.size()) return kNan;
  return reference::from_model_dtype(table.type(), table.as<std::uint16_t>()[dim(element)]);
}

std::int64_t stored_row(const HeadContract& contract, std::int64_t position) {
  const LayerCall& call = contract.call();
  const std::int64_t wanted = std::max<std::int64_t>(position, 0);
  if (!call.cos_sin_rows.present()) return wanted;
  const auto rows = call.cos_sin_rows.as<std::int64_t>();
  return std::lower_bound(rows.begin(), rows.end(), wanted) - rows.begin();
}

// All of the head rotated, with a table that is taken to have rows of `pitch` (0: rotary_dim).
Rotate whole_head(std::int64_t pitch) {
  return [pitch](const HeadContract& contract, const HeadAt& at, Head& z) {
    const std::int64_t row_pitch = pitch == 0 ? contract.call().config.rotary_dim : pitch;
    const std::int64_t row = stored_row(contract, contract.position(at.token)) * row_pitch;
    for (std::int64_t i = 0; i < kHeadDim / 2; ++i) {
      rotate(z[dim(i)], z[dim(i + kHeadDim / 2)],
             {table_element(contract, row + i), table_element(contract, row + kHeadDim / 2 + i)});
    }
  };
}

void whole_head_angles_repeated(const HeadContract& contract, const HeadAt& at, Head& z) {
  const reference::RopeRow row = row_at(contract, at);
  for (std::int64_t i = 0; i < kHeadDim / 2; ++i) {
    rotate(z[dim(i)], z[dim(i + kHeadDim / 2)], angle_of(row, i % row.half));
  }
}

// Every stretch of rotary_dim dims rotated like the first one.
void every_stretch(const HeadContract& contract, const HeadAt& at, Head& z) {
  const reference::RopeRow row = row_at(contract, at);
  for (std::int64_t start = 0; start + 2 * row.half <= kHeadDim; start += 2 * row.half) {
    for (std::int64_t i = 0; i < row.half; ++i) {
      rotate(z[dim(start + i)], z[dim(start + i + row.half)], angle_of(row, i));
    }
  }
}

// The second partner reads the first one after it was overwritten, or the other way round.
void overwritten_low(const HeadContract& contract, const HeadAt& at, Head& z) {
  const reference::RopeRow row = row_at(contract, at);
  for (std::int64_t i = 0; i < row.half; ++i) {
    const Angle angle = angle_of(row, i);
    float& low = z[dim(i)];
    float& high = z[dim(i + row.half)];
    low = std::fma(low, angle.cos, -(high * angle.sin));
    high = std::fma(high, angle.cos, low * angle.sin);
  }
}

void overwritten_high(const HeadContract& contract, const HeadAt& at, Head& z) {
  const reference::RopeRow row = row_at(contract, at);
  for (std::int64_t i = 0; i < row.half; ++i) {
    const Angle angle = angle_of(row, i);
    float& low = z[dim(i)];
    float& high = z[dim(i + row.half)];
    high = std::fma(high, angle.cos, low * angle.sin);
    low = std::fma(low, angle.cos, -(high * angle.sin));
  }
}

// The same with what was stored: the partner has been rounded to the model dtype.
Rotate overwritten_rounded(bool low_first) {
  return [low_first](const HeadContract& contract, const HeadAt& at, Head& z) {
    const reference::RopeRow row = row_at(contract, at);
    const ElementType type = contract.call().model_dtype();
    for (std::int64_t i = 0; i < row.half; ++i) {
      const Angle angle = angle_of(row, i);
      float& low = z[dim(i)];
      float& high = z[dim(i + row.half)];
      if (low_first) {
        low = reference::round_to_model_dtype(type, std::fma(low, angle.cos, -(high * angle.sin)));
        high = std::fma(high, angle.cos, low * angle.sin);
      } else {
        high = reference::round_to_model_dtype(type, std::fma(high, angle.cos, low * angle.sin));
        low = std::fma(low, angle.cos, -(high * angle.sin));
      }
    }
  };
}

void rotated_twice(const HeadContract& contract, const HeadAt& at, Head& z) {
  z = contract.rope(at, contract.rope(at, z));
}

void stored_and_rotated_again(const HeadContract& contract, const HeadAt& at, Head& z) {
  z = contract.rope(at, z);
  reference::round_to_model_dtype(contract.call().model_dtype(), z);
  z = contract.rope(at, z);
}

enum class Rounded : std::uint8_t { both, cos, sin };

void table_rounded(const HeadContract& contract, const HeadAt& at, Head& z, ElementType type,
                   Rounded which) {
  reference::RopeRow row = row_at(contract, at);
  if (which != Rounded::sin) reference::round_to_model_dtype(type, row.cos);
  if (which != Rounded::cos) reference::round_to_model_dtype(type, row.sin);
  reference::apply_rope(z, row, contract.contraction());
}

using Add = std::function<void(std::string, std::string, Mutation)>;

// Which k head a query head would be mixed up with.
std::int64_t group_head(const HeadContract& contract, std::int64_t head) {
  return head / std::max<std::int64_t>(contract.heads(Branch::q) / contract.heads(Branch::k), 1);
}
std::int64_t same_head(const HeadContract& contract, std::int64_t head) {
  return head % contract.heads(Branch::k);
}

std::int64_t first_head(const HeadContract&, std::int64_t) {
  return 0;
}

using HeadMap = std::int64_t (*)(const HeadContract&, std::int64_t);

// z of the k head that a query head is mixed up with.
Head rotated_key(const HeadContract& contract, const HeadAt& at, HeadMap map) {
  const HeadAt key{Branch::k, at.token, map(contract, at.head)};
  return evaluate_head(contract, nullptr, key).z;
}

Mutation dims_from_key(HeadMap map, std::int64_t first_half, std::int64_t last_half) {
  return rotated([=](const HeadContract& contract, const HeadAt& at, Head& z) {
    const Head key = rotated_key(contract, at, map);
    z = contract.rope(at, z);
    const std::int64_t half = contract.call().config.rotary_dim / 2;
    const std::int64_t first = first_half < 0 ? kHeadDim / 2 : first_half * half;
    const std::int64_t last = last_half < 0 ? kHeadDim : last_half * half;
    for (std::int64_t d = first; d < last; ++d) z[dim(d)] = key[dim(d)];
  });
}

// Dims >= 64 taken from the packed row's k, untouched.
Mutation dims_from_packed_key(HeadMap map) {
  return rotated([=](const HeadContract& contract, const HeadAt& at, Head& z) {
    const HeadAt from{Branch::k, at.token, map(contract, at.head)};
    const Head key = contract.read(contract.first_element(from));
    z = contract.rope(at, z);
    for (std::int64_t d = kHeadDim / 2; d < kHeadDim; ++d) z[dim(d)] = key[dim(d)];
  });
}

// The pairs' partners taken from the key.
Mutation partners_from_key(HeadMap map) {
  return rotated([=](const HeadContract& contract, const HeadAt& at, Head& z) {
    const HeadAt key{Branch::k, at.token, map(contract, at.head)};
    const Head partner = evaluate_head(contract, nullptr, key).y;
    const reference::RopeRow row = row_at(contract, at);
    for (std::int64_t i = 0; i < row.half; ++i) {
      const Angle angle = angle_of(row, i);
      z[dim(i)] = std::fma(z[dim(i)], angle.cos, -(partner[dim(i + row.half)] * angle.sin));
      z[dim(i + row.half)] = std::fma(z[dim(i + row.half)], angle.cos, partner[dim(i)] * angle.sin);
    }
  });
}

void add_cross(const Add& add) {
  for (const HeadMap map : {HeadMap{group_head}, HeadMap{same_head}, HeadMap{first_head}}) {
    add("rope-qk-cross", "dims >= 64 taken from k as it came", dims_from_packed_key(map));
    add("rope-qk-cross", "the second rotated half computed from k", dims_from_key(map, 1, 2));
    add("rope-qk-cross", "the first rotated half computed from k", dims_from_key(map, 0, 1));
    add("rope-qk-cross", "dims >= 64 computed from k", dims_from_key(map, -1, -1));
    add("rope-qk-cross", "rotation partners taken from k", partners_from_key(map));
    Mutation heads;
    heads.content = [map](const HeadContract& contract, const HeadAt& at) {
      if (at.head < contract.heads(Branch::q) / 2) return at;
      return HeadAt{Branch::k, at.token, map(contract, at.head)};
    };
    add("rope-qk-cross", "the second half of the heads computed from k", std::move(heads));
  }
}

void add_unrotated(Branch branch, const Add& add) {
  const Rotate nothing = [](const HeadContract&, const HeadAt&, Head&) {};
  const char* const id = branch == Branch::index_k ? "index-k-unnormed" : "rope-writeback-missing";
  add(id, "normalised, not rotated", rotated(nothing));
  Mutation raw = rotated(nothing);
  raw.norm = [](const HeadContract&, const HeadAt&, const Head& x) { return x; };
  Mutation unnormed;
  unnormed.norm = raw.norm;
  add(id, "the packed row as it came: neither normalised nor rotated", std::move(raw));
  add(id, "rotated, not normalised", std::move(unnormed));
}

void add_pairs(const HeadContract& contract, const Add& add) {
  add("rope-interleave-swap", "pairs (2i, 2i+1) rotated", rotated(interleaved));
  if (contract.call().config.rotary_dim == kHeadDim) return;
  add("rope-rotary-dim-ignored", "all 128 dims rotated, the table read past its row",
      rotated(whole_head(0)));
  add("rope-rotary-dim-ignored", "all 128 dims rotated, table rows of 128",
      rotated(whole_head(kHeadDim)));
  add("rope-rotary-dim-ignored", "all 128 dims rotated, angles repeated",
      rotated(whole_head_angles_repeated));
  add("rope-rotary-dim-ignored", "every stretch of rotary_dim dims rotated",
      rotated(every_stretch));
  add("rope-pair-offset", "partners 64 dims apart", rotated(offset_pairs));
  add("rope-pair-offset", "rotated dims with partners 64 dims apart", rotated(offset_partners));
}

void add_overwritten(const Add& add) {
  add("rope-inplace-race", "partner read after it was overwritten", rotated(overwritten_low));
  add("rope-inplace-race", "first of a pair read after the second was overwritten",
      rotated(overwritten_high));
  add("rope-inplace-race", "partner read back after it was stored",
      rotated(overwritten_rounded(true)));
  add("rope-inplace-race", "first of a pair read back after it was stored",
      rotated(overwritten_rounded(false)));
  add("rope-inplace-race", "rotated twice", rotated(rotated_twice));
  add("rope-inplace-race", "stored, read back and rotated again",
      rotated(stored_and_rotated_again));
}

}  // namespace

void add_rope_hypotheses(const HeadContract& contract, Branch branch, Hypotheses& list) {
  if (branch == Branch::v) return;
  const Add add = [&](std::string id, std::string detail, Mutation mutation) {
    list.push_back({std::move(id), std::move(detail), kStage, {branch}, std::move(mutation)});
  };
  add_pairs(contract, add);
  add_unrotated(branch, add);
  if (branch == Branch::q) add_cross(add);
  add_overwritten(add);
  for (const ElementType type : {ElementType::bfloat16, ElementType::float16}) {
    if (type == contract.call().cos_sin_cache.type()) continue;
    for (const auto& [which, words] :
         {std::pair{Rounded::both, "the table"}, std::pair{Rounded::cos, "cosines"},
          std::pair{Rounded::sin, "sines"}}) {
      add("rope-table-dtype", std::string(words) + " rounded to " + std::string(name_of(type)),
          rotated([type, which = which](const HeadContract& c, const HeadAt& at, Head& z) {
            table_rounded(c, at, z, type, which);
          }));
    }
  }
}

}  // namespace zerodiff::compare
