#include "compare/mismatch_pattern.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

namespace zerodiff::compare {
namespace {

using Values = std::vector<std::int64_t>;
using Predicate = std::function<bool(std::int64_t)>;

constexpr double kChance = 1e-4;
constexpr std::size_t kListed = 4;

struct Pattern {
  std::string text;
  std::int64_t fitting = 0;  // values of the universe
};

class AxisSearch {
 public:
  AxisSearch(std::string singular, std::string plural, const Values& hit, const Values& all)
      : singular_(std::move(singular)), plural_(std::move(plural)), hit_(hit), all_(all) {}

  std::string run() {
    if (hit_.empty() || hit_.size() == all_.size()) return "";
    if (hit_.size() == 1) return singular_ + " " + std::to_string(hit_.front()) + " only";
    add_bounds();
    add_remainders();
    if (!best_ && hit_.size() <= kListed) return plural_ + " " + listed();
    return best_ ? best_->text : "";
  }

 private:
  void add_bounds() {
    const std::int64_t low = hit_.front();
    const std::int64_t high = hit_.back();
    // A bound that not every fitting value bears out has to be a round number.
    for (const std::int64_t bound : {32, 64, 96}) {
      try_one(plural_ + " >= " + std::to_string(bound), [=](std::int64_t v) { return v >= bound; });
      try_one(plural_ + " < " + std::to_string(bound), [=](std::int64_t v) { return v < bound; });
    }
    try_one(
        plural_ + " >= " + std::to_string(low), [=](std::int64_t v) { return v >= low; }, false);
    const auto next = std::upper_bound(all_.begin(), all_.end(), high);
    const std::int64_t end = next == all_.end() ? high + 1 : *next;
    try_one(
        plural_ + " < " + std::to_string(end), [=](std::int64_t v) { return v <= high; }, false);
    try_one(
        plural_ + " " + std::to_string(low) + "-" + std::to_string(high),
        [=](std::int64_t v) { return v >= low && v <= high; }, false);
  }

  void add_remainders() {
    for (const std::int64_t m : {2, 4, 8, 16}) {
      const std::int64_t rest = hit_.front() % m;
      std::string text =
          m == 2 ? (rest == 0 ? "even " : "odd ") + plural_ + " only"
                 : plural_ + " % " + std::to_string(m) + " = " + std::to_string(rest) + " only";
      try_one(std::move(text), [=](std::int64_t v) { return v % m == rest; });
    }
  }

  void try_one(std::string text, const Predicate& fits, bool round = true) {
    if (!std::ranges::all_of(hit_, fits)) return;
    const auto fitting = std::ranges::count_if(all_, fits);
    if (fitting == static_cast<std::int64_t>(all_.size())) return;
    const double share = static_cast<double>(fitting) / static_cast<double>(all_.size());
    const bool exact = fitting == static_cast<std::int64_t>(hit_.size());
    if (!exact && !round) return;
    if (!exact && std::pow(share, static_cast<double>(hit_.size())) >= kChance) return;
    if (best_ && best_->fitting <= fitting) return;
    best_ = Pattern{std::move(text), fitting};
  }

  std::string listed() const {
    std::string text;
    for (const std::int64_t value : hit_) {
      text += (text.empty() ? "" : ", ") + std::to_string(value);
    }
    return text;
  }

  std::string singular_;
  std::string plural_;
  const Values& hit_;
  const Values& all_;
  std::optional<Pattern> best_;
};

Values sorted(const std::set<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

Values up_to(std::int64_t count) {
  Values values;
  for (std::int64_t v = 0; v < count; ++v) values.push_back(v);
  return values;
}

Values hit_dims(const HeadContract& contract, const JudgedTensor& tensor, const MismatchSet& set) {
  const StoredBits expected(*tensor.expected);
  const StoredBits got(*tensor.got);
  std::set<std::int64_t> dims;
  for (const AffectedHead& head : set.heads) {
    if (dims.size() == static_cast<std::size_t>(kHeadDim)) break;
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      const std::int64_t flat = contract.place(head.at, d);
      if (!tensor.same(expected.at(flat), got.at(flat))) dims.insert(d);
    }
  }
  return sorted(dims);
}

// Rows that store the branch, and those of them that have a mismatch.
struct RowSets {
  Values all;
  Values hit;
};

RowSets row_sets(const HeadContract& contract, Branch branch, const MismatchSet& set) {
  RowSets rows;
  for (std::int64_t token = 0; token < contract.call().config.num_tokens; ++token) {
    if (contract.place({branch, token, 0}, 0) >= 0) rows.all.push_back(token);
  }
  for (const AffectedHead& head : set.heads) {
    if (rows.hit.empty() || rows.hit.back() != head.at.token) rows.hit.push_back(head.at.token);
  }
  return rows;
}

// The pattern of a coordinate that a row's slot has.
std::string slot_pattern(const HeadContract& contract, Branch branch, const RowSets& rows,
                         const std::string& name,
                         const std::function<std::int64_t(std::int64_t slot)>& coordinate) {
  const auto coordinates = [&](const Values& tokens) {
    std::set<std::int64_t> values;
    for (const std::int64_t token : tokens) {
      values.insert(coordinate(contract.mapped_slot(branch, token)));
    }
    return sorted(values);
  };
  return axis_pattern(name, name + "s", coordinates(rows.hit), coordinates(rows.all));
}

std::string row_pattern(const HeadContract& contract, const JudgedTensor& tensor,
                        const MismatchSet& set) {
  const RowSets rows = row_sets(contract, tensor.branch, set);
  std::string by_row = axis_pattern("row", "rows", rows.hit, rows.all);
  if (!by_row.empty() || tensor.before == nullptr) return by_row;
  const auto by = [&](const char* name, const std::function<std::int64_t(std::int64_t)>& value) {
    return slot_pattern(contract, tensor.branch, rows, name, value);
  };
  for (const std::string& text :
       {by("page", [](std::int64_t slot) { return slot / kPageSize; }),
        by("block", [](std::int64_t slot) { return slot / kBlockSize; }),
        by("page offset", [](std::int64_t slot) { return slot % kPageSize; })}) {
    if (!text.empty()) return text;
  }
  if (rows.hit.size() == rows.all.size()) return "";
  return std::to_string(rows.hit.size()) + " of " + std::to_string(rows.all.size()) + " rows";
}

std::string head_pattern(const HeadContract& contract, Branch branch, const MismatchSet& set) {
  std::set<std::int64_t> heads;
  for (const AffectedHead& head : set.heads) heads.insert(head.at.head);
  return axis_pattern("head", "heads", sorted(heads), up_to(contract.heads(branch)));
}

std::string stray_pattern(const HeadContract& contract, const JudgedTensor& tensor,
                          const MismatchSet& set) {
  if (set.strays.empty()) return "";
  const Values slots = stray_slots(contract, tensor, set);
  std::string text = std::to_string(set.strays.size()) + " elements of ";
  if (slots.size() == 1)
    return text + "slot " + std::to_string(slots[0]) + ", which no row maps to";
  return text + std::to_string(slots.size()) + " slots that no row maps to";
}

}  // namespace

std::string axis_pattern(const std::string& singular, const std::string& plural, const Values& hit,
                         const Values& all) {
  return AxisSearch(singular, plural, hit, all).run();
}

std::vector<std::int64_t> stray_slots(const HeadContract& contract, const JudgedTensor& tensor,
                                      const MismatchSet& set) {
  std::set<std::int64_t> slots;
  if (set.strays.empty()) return {};
  const CacheGeometry geometry(contract.call(), *cache_output(tensor.output));
  for (const std::int64_t flat : set.strays) slots.insert(geometry.at(flat).slot);
  return sorted(slots);
}

std::string mismatch_pattern(const HeadContract& contract, const JudgedTensor& tensor,
                             const MismatchSet& set) {
  std::string text;
  const auto add = [&](const std::string& part) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  };
  if (!set.heads.empty()) {
    add(row_pattern(contract, tensor, set));
    add(head_pattern(contract, tensor.branch, set));
    add(axis_pattern("dim", "dims", hit_dims(contract, tensor, set), up_to(kHeadDim)));
    const std::int64_t owned = set.total - static_cast<std::int64_t>(set.strays.size());
    const bool dense = 2 * owned >= static_cast<std::int64_t>(set.heads.size()) * kHeadDim;
    if (text.empty()) text = dense ? "everywhere" : "scattered everywhere";
  }
  add(stray_pattern(contract, tensor, set));
  return text;
}

}  // namespace zerodiff::compare
