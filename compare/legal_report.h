// What a legal verdict rests on: which choices of numerics.md section 14 explain an output, and how
// many of its heads needed which of them. Part of compare/report.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace zerodiff::compare {

// Semantic coordinates in reading order: {"token", 3}, {"request", 1}, {"head", 0}, {"dim", 17},
// ... -1 means that the coordinate has no value here (a cache slot that no token maps to).
using Coordinates = std::vector<std::pair<std::string, std::int64_t>>;

// One choice per build, solved once for the path.
struct ChoiceFinding {
  std::string id;               // "rope_contraction"
  std::string value;            // under which the path is explained
  bool of_the_contract = true;  // it is the value of the contract in force
  // Other allowed values that explain these outputs as completely: not told apart on these data.
  std::vector<std::string> as_good;
};

// One output of one path. A head is 128 values of one token: of q or index_q, or those that a token
// stores as K, V or index K.
struct LegalReport {
  static constexpr std::int64_t kMostUlps = 2;

  std::vector<ChoiceFinding> choices;  // the ones that can show in this output
  std::int64_t heads = 0;
  // Explained with r moved by -2..+2 ulp from the contract's; heads without r (V) count as 0.
  std::array<std::int64_t, 2 * kMostUlps + 1> heads_by_ulp{};
  // Explained with r further out, where only another order of the sum of squares takes it.
  std::int64_t heads_by_sum_order = 0;
  std::int64_t largest_move = 0;  // of r in an explained head, in ulp, with its sign
  std::int64_t heads_unexplained = 0;
  // Elements that differ from the contract, in explained and unexplained heads.
  std::int64_t elements_explained = 0;
  std::int64_t elements_unexplained = 0;
  std::optional<Coordinates> first_unexplained;  // token and head

  bool explains_all() const { return heads_unexplained == 0; }
  bool moves_r() const {
    return heads_by_sum_order > 0 || heads_by_ulp[kMostUlps] + heads_unexplained < heads;
  }
};

// What a path says of itself, a contract attribute of its group, beside what the call declares.
struct ClaimReport {
  std::string path;
  std::string name;      // "quantize_from"
  std::string claimed;   // "fp32"
  std::string contract;  // "model_dtype"; empty: an attribute that no contract has
  bool contradicts = false;
  bool allowed = true;  // it agrees, or the choice is allowed
  bool gates = false;   // whether a claim that is not allowed fails the case
};

}  // namespace zerodiff::compare
