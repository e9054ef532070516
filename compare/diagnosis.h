// What is wrong with an output that is a fault: the explanation that accounts for most of its
// mismatching elements (docs/verdicts.md, section 4). Data only; who finds it is another matter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zerodiff::compare {

// An explanation counts if it accounts for at least this share of the mismatching elements.
inline constexpr double kExplainedShare = 0.95;
// A runner-up is named if it accounts for at least this share of what the best one does.
inline constexpr double kCloseShare = 0.9;

// One hypothesis held against the mismatching elements of one tensor.
struct Explanation {
  std::string id;              // a class of docs/faults.md, "fp8-rounding-chain"
  std::string detail;          // the mutation in words: "quantised from fp32, not from bfloat16"
  std::string stage;           // where it happens, one of the frozen stage names
  std::int64_t explained = 0;  // mismatching elements that have exactly the hypothesis's bits
  std::int64_t of = 0;         // mismatching elements
  // Matching elements, in the heads that have a mismatch, that the hypothesis would have changed.
  std::int64_t contradicted = 0;

  double coverage() const {
    return of == 0 ? 0 : static_cast<double>(explained) / static_cast<double>(of);
  }
};

// The diagnosis of one tensor of one path.
struct Diagnosis {
  std::string path;
  std::string output;           // a name of kOutputFields, "kv_cache"
  std::string tensor;           // "q", "k", "v", "index_q", "index_k", or the output's name
  std::string stage;            // of the best explanation; without one, the stage that makes it
  std::int64_t mismatches = 0;  // of counted elements
  // Rows of the batch that own mismatching elements, ascending. An element of a cache that no row
  // owns (an untouched one that changed) adds its slot to stray_slots instead.
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> stray_slots;
  std::string pattern;  // "rows >= 3, dims >= 64"; "all" if nothing stands out

  std::optional<Explanation> best;       // nullopt: unexplained
  std::optional<Explanation> runner_up;  // the next one, if it is close
  std::vector<Explanation> ties;         // others that explain exactly the same elements as `best`

  bool explained() const { return best.has_value(); }
  std::string id() const { return best ? best->id : "unexplained"; }
};

// "fp8-rounding-chain (quantised from fp32, not from bfloat16), explains 27 of 27" and the pattern,
// or "unexplained (best: ...)"; one line.
std::string describe(const Diagnosis& diagnosis);

}  // namespace zerodiff::compare
