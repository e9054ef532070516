// Hypotheses: insertion kernels that do one thing differently from the contract (docs/faults.md,
// 1.1 to 1.6 and 2), as counterfactual evaluations of one head.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "compare/head_contract.h"

namespace zerodiff::compare {

// Stands for "whatever is found here": the hypothesis says that the value is wrong, not which one
// it is.
inline constexpr std::uint32_t kAnyBits = std::numeric_limits<std::uint32_t>::max();

// Steps that replace those of the contract; an empty one is the contract's own.
struct Mutation {
  // Whose head is stored in the place of `at`.
  std::function<HeadAt(const HeadContract&, const HeadAt& at)> content = nullptr;
  // Flat index in qkv of the first element of the head that `content` gave.
  std::function<std::int64_t(const HeadContract&, const HeadAt& from)> source = nullptr;
  std::function<Head(const HeadContract&, const HeadAt& from, const Head& x)> norm = nullptr;
  std::function<Head(const HeadContract&, const HeadAt& from, const Head& y)> rope = nullptr;
  std::function<HeadCodes(const HeadContract&, const HeadAt& at, const Head& z)> encode = nullptr;
  // A flat index in the output, or -1; indices past the output are dropped. Rows that store nothing
  // are asked too.
  std::function<std::int64_t(const HeadContract&, const HeadAt& at, std::int64_t dim)> place =
      nullptr;
};

struct Hypothesis {
  std::string id;                // a class of docs/faults.md
  std::string detail;            // the mutation in words
  std::string stage;             // where it happens
  std::vector<Branch> branches;  // whose heads it changes
  Mutation mutation;

  bool changes(Branch branch) const;
  bool moves() const { return mutation.place != nullptr; }
};

// Every intermediate value of one head.
struct HeadSteps {
  Head x{};
  Head y{};
  Head z{};
  HeadCodes bits{};
};

// A head under a hypothesis, or (nullptr, or a branch that it does not change) under the contract.
HeadSteps evaluate_head(const HeadContract& contract, const Hypothesis* hypothesis,
                        const HeadAt& at);
// The same for where an element goes: -1 for nowhere, and for places past the output.
std::int64_t place_of(const HeadContract& contract, const Hypothesis& hypothesis, const HeadAt& at,
                      std::int64_t dim);

// All hypotheses of a call that could change heads of `branch`, in order of preference among those
// that explain the same. Those that the call's configuration makes pointless are left out.
std::vector<Hypothesis> hypotheses_for(const HeadContract& contract, Branch branch);

// Their families, one file each; they append to `list`.
using Hypotheses = std::vector<Hypothesis>;
void add_code_hypotheses(const HeadContract& contract, Branch branch, Hypotheses& list);
void add_scale_hypotheses(const HeadContract& contract, Branch branch, Hypotheses& list);
void add_norm_hypotheses(const HeadContract& contract, Branch branch, Hypotheses& list);
void add_rope_hypotheses(const HeadContract& contract, Branch branch, Hypotheses& list);
void add_rope_position_hypotheses(const HeadContract& contract, Branch branch, Hypotheses& list);
void add_source_hypotheses(const HeadContract& contract, Branch branch, Hypotheses& list);
void add_unwritten_hypotheses(Branch branch, Hypotheses& list);
void add_layout_hypotheses(const HeadContract& contract, Branch branch, Hypotheses& list);
void add_slot_hypotheses(const HeadContract& contract, Branch branch, Hypotheses& list);

// The stage that stores a branch: reshape_and_cache, index_cache_insert, or qk_norm_rope for
// queries.
std::string storing_stage(Branch branch);

}  // namespace zerodiff::compare
