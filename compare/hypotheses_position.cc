// Hypotheses about the row of the RoPE table that a head is rotated by: the position and the
// table's own precision (docs/faults.md, 1.6).
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "compare/hypothesis.h"
#include "reference/number_formats.h"
#include "reference/slot_mapping.h"

namespace zerodiff::compare {
namespace {

constexpr const char* kStage = "qk_norm_rope";

using PositionOf = std::function<std::int64_t(const HeadContract&, std::int64_t token)>;

Head rotated_at(const HeadContract& contract, const Head& y, std::int64_t position) {
  Head z = y;
  const auto row = contract.rope_row(position);
  if (!row) {
    z.fill(std::numeric_limits<float>::quiet_NaN());
    return z;
  }
  reference::apply_rope(z, *row, contract.contraction());
  return z;
}

struct PositionRule {
  const char* words;
  PositionOf position;
};

std::int64_t scheduled(const HeadContract& contract, std::int64_t token) {
  return std::clamp<std::int64_t>(token, 0, contract.call().capacity() - 1);
}

std::int64_t first_row_of_request(const HeadContract& contract, std::int64_t token) {
  const LayerCall& call = contract.call();
  if (!call.query_start_loc.present() || token >= call.config.num_tokens) return token;
  const std::int64_t request = reference::request_of_row(call, token);
  return call.query_start_loc.as<std::int32_t>()[static_cast<std::size_t>(request)];
}

std::vector<PositionRule> position_rules() {
  return {
      {"row 0's position used for every row",
       [](const HeadContract& c, std::int64_t) { return c.position(0); }},
      {"the row's number used as its position",
       [](const HeadContract&, std::int64_t token) { return token; }},
      {"the number of the row in its request used as its position",
       [](const HeadContract& c, std::int64_t token) {
         return token - first_row_of_request(c, token);
       }},
      {"one position too far",
       [](const HeadContract& c, std::int64_t token) {
         return position_plus(c.position(token), 1);
       }},
      {"one position behind",
       [](const HeadContract& c, std::int64_t token) {
         return position_plus(c.position(token), -1);
       }},
      {"the previous row's position",
       [](const HeadContract& c, std::int64_t token) {
         return c.position(scheduled(c, token - 1));
       }},
      {"the next row's position",
       [](const HeadContract& c, std::int64_t token) {
         return c.position(scheduled(c, token + 1));
       }},
      {"the position of the request's first row",
       [](const HeadContract& c, std::int64_t token) {
         return c.position(first_row_of_request(c, token));
       }},
      {"the position within the block",
       [](const HeadContract& c, std::int64_t token) { return c.position(token) % kBlockSize; }},
      {"position 0 for every row", [](const HeadContract&, std::int64_t) { return 0; }},
  };
}

// The base of the table: cos and sin of position * theta^(-2i/rotary_dim). Found by recomputing
// the table's own rows, so a table of another kind has none.
class TableBase {
 public:
  explicit TableBase(const LayerCall& call) : call_(call) {}

  std::optional<double> find() const {
    for (const double theta : {1e4, 1e5, 5e5, 1e6, 5e6, 1e7, 1e8}) {
      if (agrees(theta)) return theta;
    }
    return std::nullopt;
  }

  static double angle(double theta, std::int64_t rotary_dim, std::int64_t i,
                      std::int64_t position) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim);
    return static_cast<double>(position) * std::pow(theta, exponent);
  }

 private:
  static constexpr std::int64_t kRowsTried = 8;
  // A table made from binary32 angles is off by a step here and there.
  static constexpr std::int64_t kStepsOff = 1;

  bool agrees(double theta) const {
    const Tensor& table = call_.cos_sin_cache;
    const std::int64_t rows = table.dim(0);
    for (std::int64_t n = 0; n < kRowsTried; ++n) {
      const std::int64_t row = std::min(rows - 1, n * std::max<std::int64_t>(rows / kRowsTried, 1));
      if (!row_agrees(theta, row)) return false;
    }
    return true;
  }

  bool row_agrees(double theta, std::int64_t row) const {
    const Tensor& table = call_.cos_sin_cache;
    const std::int64_t width = table.dim(1);
    const std::int64_t position =
        call_.cos_sin_rows.present()
            ? call_.cos_sin_rows.as<std::int64_t>()[static_cast<std::size_t>(row)]
            : row;
    for (std::int64_t i = 0; i < width / 2; ++i) {
      const auto wanted = static_cast<float>(std::cos(angle(theta, width, i, position)));
      const std::int64_t bits = reference::to_model_dtype(table.type(), wanted);
      const std::int64_t found =
          table.as<std::uint16_t>()[static_cast<std::size_t>(row * width + i)];
      if (std::abs(bits - found) > kStepsOff) return false;
    }
    return true;
  }

  const LayerCall& call_;
};

Head rotated_by_fp32_table(const HeadContract& contract, const HeadAt& at, const Head& y,
                           double theta) {
  const std::int64_t position = std::max<std::int64_t>(contract.position(at.token), 0);
  const std::int64_t rotary_dim = contract.call().config.rotary_dim;
  reference::RopeRow row;
  row.half = rotary_dim / 2;
  for (std::int64_t i = 0; i < row.half; ++i) {
    const double angle = TableBase::angle(theta, rotary_dim, i, position);
    row.cos[static_cast<std::size_t>(i)] = static_cast<float>(std::cos(angle));
    row.sin[static_cast<std::size_t>(i)] = static_cast<float>(std::sin(angle));
  }
  Head z = y;
  reference::apply_rope(z, row, contract.contraction());
  return z;
}

// Rows whose position has no row of its own in the table: anything may stand in their rotated dims.
Mutation past_the_table() {
  return {.encode = [](const HeadContract& contract, const HeadAt& at, const Head& z) {
    HeadCodes bits = contract.encode(at, z);
    if (contract.position(at.token) >= 0) return bits;
    const auto rotary_dim = static_cast<std::size_t>(contract.call().config.rotary_dim);
    std::fill_n(bits.begin(), rotary_dim, kAnyBits);
    return bits;
  }};
}

}  // namespace

void add_rope_position_hypotheses(const HeadContract& contract, Branch branch, Hypotheses& list) {
  if (branch == Branch::v) return;
  const auto add = [&](std::string id, std::string detail, Mutation mutation) {
    list.push_back({std::move(id), std::move(detail), kStage, {branch}, std::move(mutation)});
  };
  for (const PositionRule& rule : position_rules()) {
    Mutation mutation;
    mutation.rope = [position = rule.position](const HeadContract& c, const HeadAt& at,
                                               const Head& y) {
      return rotated_at(c, y, position(c, at.token));
    };
    add("rope-position-wrong", rule.words, std::move(mutation));
  }
  if (const auto theta = TableBase(contract.call()).find()) {
    Mutation mutation;
    mutation.rope = [theta = *theta](const HeadContract& c, const HeadAt& at, const Head& y) {
      return rotated_by_fp32_table(c, at, y, theta);
    };
    add("rope-table-dtype", "cos and sin in fp32, not rounded to the model dtype",
        std::move(mutation));
  }
  add("rope-table-oob", "rows with a negative position rotated by what lies before the table",
      past_the_table());
}

}  // namespace zerodiff::compare
