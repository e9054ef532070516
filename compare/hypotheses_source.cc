// Hypotheses about where a head is read from in qkv (docs/faults.md: `stride-ignored` of 1.4 and
// `qkv-row-pitch-without-index` of section 2).
#include "compare/hypothesis.h"

namespace zerodiff::compare {
namespace {

// The packed row without its index heads.
std::int64_t pitch_without_index(const HeadContract& contract) {
  return contract.heads_before(Branch::index_q) * kHeadDim;
}

std::int64_t offset_in_row(const HeadContract& contract, const HeadAt& from) {
  return (contract.heads_before(from.branch) + from.head) * kHeadDim;
}

std::int64_t branch_pitch(const HeadContract& contract, Branch branch) {
  return contract.heads(branch) * kHeadDim;
}

// Tokens before `from` in a tensor of the branch alone.
std::int64_t offset_in_branch(const HeadContract& contract, const HeadAt& from) {
  return from.token * branch_pitch(contract, from.branch) + from.head * kHeadDim;
}

}  // namespace

void add_source_hypotheses(const HeadContract& /*contract*/, Branch branch, Hypotheses& list) {
  const std::string stage = branch == Branch::v ? "reshape_and_cache" : "qk_norm_rope";
  using Source = std::int64_t (*)(const HeadContract&, const HeadAt&);
  const auto add = [&](const char* id, const char* detail, Source source) {
    Mutation mutation;
    mutation.source = source;
    list.push_back({id, detail, stage, {branch}, std::move(mutation)});
  };
  add("qkv-row-pitch-without-index", "row pitch without the index heads",
      [](const HeadContract& c, const HeadAt& from) {
        return from.token * pitch_without_index(c) + offset_in_row(c, from);
      });
  add("stride-ignored", "the slice of the packed rows read as if it were contiguous",
      [](const HeadContract& c, const HeadAt& from) {
        return c.heads_before(from.branch) * kHeadDim + offset_in_branch(c, from);
      });
  add("stride-ignored", "the packed rows read as one contiguous tensor for each part",
      [](const HeadContract& c, const HeadAt& from) {
        return c.call().capacity() * c.heads_before(from.branch) * kHeadDim +
               offset_in_branch(c, from);
      });
}

}  // namespace zerodiff::compare
