// Combinations of the choices per build that show in the insertion stages.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compare/allowed_choices.h"
#include "compare/insertion_heads.h"
#include "reference/choices.h"

namespace zerodiff::compare {

inline constexpr std::array<std::string_view, 6> kBuildChoices{
    "rope_contraction", "norm_materialised", "quantize_from",
    "scale_op",         "overflow",          "index_q_from"};

// One value of each of kBuildChoices, by its place among the allowed ones; 0 is the contract's.
using BuildKey = std::array<std::uint8_t, kBuildChoices.size()>;

// Which of kBuildChoices can show in a tensor stored as `type`.
std::array<bool, kBuildChoices.size()> shown_choices(HeadTensor tensor, ElementType type);

class BuildChoices {
 public:
  // `shown`: the choices that can show in any tensor of the call; of the others only the contract's
  // value is taken.
  BuildChoices(const AllowedChoices& allowed, const std::array<bool, kBuildChoices.size()>& shown);

  // Every combination: the contract's first, then in the order of how many differ from it.
  std::vector<BuildKey> combinations() const;

  const std::vector<std::string>& values(std::size_t choice) const { return values_[choice]; }
  reference::Choices choices(const BuildKey& key) const;

 private:
  std::array<std::vector<std::string>, kBuildChoices.size()> values_;
};

// How many choices of a combination are not the contract's.
std::int64_t departures(const BuildKey& key);

// The contract in force as choices: the first allowed value of each of kBuildChoices.
reference::Choices contract_choices(const AllowedChoices& allowed);

// Whether they are canonical and what the call declares.
bool as_declared(const reference::Choices& choices, const LayerConfig& config);

}  // namespace zerodiff::compare
