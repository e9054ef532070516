#include "compare/misplaced_rows.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "compare/hypothesis.h"

namespace zerodiff::compare {
namespace {

// FNV-1a over the bits; equal heads are compared in full afterwards.
std::uint64_t hash_of(const HeadCodes& bits) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const std::uint32_t value : bits) hash = (hash ^ value) * 0x100000001B3U;
  return hash;
}

struct Found {
  HeadAt at;
  std::int64_t mismatches = 0;
  HeadAt source;
};

class ContentIndex {
 public:
  ContentIndex(const HeadContract& contract, const JudgedTensor& tensor) : contract_(contract) {
    for (const Branch branch : kBranches) {
      if (contract.call().config.skip_index_branch && branch >= Branch::index_q) continue;
      if (contract.stored_type(branch) != tensor.expected->type()) continue;
      for (std::int64_t token = 0; token < contract.call().capacity(); ++token) {
        for (std::int64_t head = 0; head < contract.heads(branch); ++head) {
          const HeadAt at{branch, token, head};
          places_[hash_of(evaluate_head(contract, nullptr, at).bits)].push_back(at);
        }
      }
    }
  }

  // The most likely of the heads with these bits: of the same branch, then of the nearest row.
  std::optional<HeadAt> find(const HeadAt& wanted, const HeadCodes& bits) const {
    const auto found = places_.find(hash_of(bits));
    if (found == places_.end()) return std::nullopt;
    const auto distance = [&](const HeadAt& at) {
      return std::tuple(at.branch != wanted.branch, std::abs(at.token - wanted.token),
                        std::abs(at.head - wanted.head));
    };
    const HeadAt nearest = *std::ranges::min_element(found->second, {}, distance);
    if (evaluate_head(contract_, nullptr, nearest).bits != bits) return std::nullopt;
    return nearest;
  }

 private:
  const HeadContract& contract_;
  std::unordered_map<std::uint64_t, std::vector<HeadAt>> places_;
};

HeadCodes bits_at(const HeadContract& contract, const JudgedTensor& tensor, const HeadAt& at) {
  const StoredBits got(*tensor.got);
  HeadCodes bits;
  for (std::int64_t d = 0; d < kHeadDim; ++d) {
    bits[static_cast<std::size_t>(d)] = got.at(contract.place(at, d));
  }
  return bits;
}

std::vector<Found> find_heads(const HeadContract& contract, const JudgedTensor& tensor,
                              const MismatchSet& set, const ContentIndex& index) {
  std::vector<Found> found;
  for (const AffectedHead& head : set.heads) {
    const auto source = index.find(head.at, bits_at(contract, tensor, head.at));
    if (source) found.push_back({head.at, head.mismatches, *source});
  }
  return found;
}

// Elements of slots that no row maps to and that hold a head of the call, all of it.
std::int64_t found_strays(const HeadContract& contract, const JudgedTensor& tensor,
                          const MismatchSet& set, const ContentIndex& index) {
  if (set.strays.empty()) return 0;
  const CacheGeometry geometry(contract.call(), *cache_output(tensor.output));
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> changed;
  for (const std::int64_t flat : set.strays) {
    const CacheElement element = geometry.at(flat);
    ++changed[{element.slot, element.head}];
  }
  const StoredBits got(*tensor.got);
  std::int64_t found = 0;
  for (const auto& [place, elements] : changed) {
    CacheElement element;
    element.plane = tensor.branch == Branch::v ? kValuePlane : kKeyPlane;
    std::tie(element.slot, element.head) = place;
    HeadCodes bits;
    for (element.dim = 0; element.dim < kHeadDim; ++element.dim) {
      bits[static_cast<std::size_t>(element.dim)] = got.at(geometry.flat_index(element));
    }
    if (index.find({tensor.branch, 0, element.head}, bits)) found += elements;
  }
  return found;
}

template <class Of>
std::set<std::int64_t> values_of(const std::vector<Found>& found, Of of) {
  std::set<std::int64_t> values;
  for (const Found& one : found) values.insert(of(one));
  return values;
}

std::string signed_number(std::int64_t value) {
  std::string text = std::to_string(value);
  if (value > 0) text.insert(text.begin(), '+');
  return text;
}

// What all of the found heads have in common.
std::string relation(const std::vector<Found>& found) {
  if (found.empty()) return "rows of the call in slots that no row maps to";
  const auto branches =
      values_of(found, [](const Found& f) { return static_cast<std::int64_t>(f.source.branch); });
  const auto rows = values_of(found, [](const Found& f) { return f.source.token - f.at.token; });
  const auto heads = values_of(found, [](const Found& f) { return f.source.head - f.at.head; });
  std::string text = "each holds " + std::string(name_of(found.front().source.branch));
  if (branches.size() > 1) text = "each holds another head";
  if (rows.size() == 1) {
    text += *rows.begin() == 0 ? " of its own row" : " of row " + signed_number(*rows.begin());
  } else {
    text += " of other rows";
  }
  if (heads.size() == 1 && *heads.begin() != 0) text += ", head " + signed_number(*heads.begin());
  if (heads.size() > 1) text += ", of other heads";
  const Found& first = found.front();
  return text + " (row " + std::to_string(first.at.token) + " head " +
         std::to_string(first.at.head) + " holds row " + std::to_string(first.source.token) +
         " head " + std::to_string(first.source.head) + ")";
}

}  // namespace

std::optional<Explanation> find_misplaced_rows(const HeadContract& contract,
                                               const JudgedTensor& tensor, const MismatchSet& set) {
  const ContentIndex index(contract, tensor);
  const std::vector<Found> found = find_heads(contract, tensor, set, index);
  Explanation explanation;
  explanation.id = "misplaced-rows";
  explanation.stage = storing_stage(tensor.branch);
  explanation.of = set.total;
  for (const Found& one : found) explanation.explained += one.mismatches;
  explanation.explained += found_strays(contract, tensor, set, index);
  if (explanation.coverage() < kExplainedShare) return std::nullopt;
  explanation.detail = relation(found);
  return explanation;
}

}  // namespace zerodiff::compare
