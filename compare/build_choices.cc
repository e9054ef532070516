#include "compare/build_choices.h"

#include <algorithm>

#include "compare/head_storage.h"

namespace zerodiff::compare {
namespace {

reference::RopeContraction contraction_from(std::string_view name) {
  if (name == "separate") return reference::RopeContraction::separate;
  if (name == "fma_sin") return reference::RopeContraction::fma_sin;
  return reference::RopeContraction::fma_cos;
}

reference::Choices choices_from(const std::array<std::string_view, kBuildChoices.size()>& names) {
  reference::Choices choices;
  choices.rope_contraction = contraction_from(names[0]);
  choices.norm_materialised = names[1] == "true";
  choices.quantize_from = enum_from_name<QuantizeFrom>(names[2]);
  choices.scale_op = enum_from_name<ScaleOp>(names[3]);
  choices.overflow = enum_from_name<Overflow>(names[4]);
  choices.index_q_from = enum_from_name<IndexQFrom>(names[5]);
  return choices;
}

// The next combination in mixed radix; false after the last.
bool advance(BuildKey& key, const BuildChoices& choices) {
  for (std::size_t i = key.size(); i-- > 0;) {
    if (++key[i] < choices.values(i).size()) return true;
    key[i] = 0;
  }
  return false;
}

}  // namespace

std::array<bool, kBuildChoices.size()> shown_choices(HeadTensor tensor, ElementType type) {
  const bool rotated = tensor != HeadTensor::v;
  const StorageChoices storage = storage_choices(tensor, type);
  return {rotated,          rotated,          storage.quantize_from,
          storage.scale_op, storage.scale_op, storage.index_q_from};
}

BuildChoices::BuildChoices(const AllowedChoices& allowed,
                           const std::array<bool, kBuildChoices.size()>& shown) {
  for (std::size_t i = 0; i < kBuildChoices.size(); ++i) {
    values_[i] = allowed.values(kBuildChoices[i]);
    if (!shown[i]) values_[i].resize(1);
  }
}

std::vector<BuildKey> BuildChoices::combinations() const {
  std::vector<BuildKey> keys;
  BuildKey key{};
  do {
    keys.push_back(key);
  } while (advance(key, *this));
  std::ranges::stable_sort(keys, {}, departures);
  return keys;
}

reference::Choices BuildChoices::choices(const BuildKey& key) const {
  std::array<std::string_view, kBuildChoices.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = values_[i][key[i]];
  return choices_from(names);
}

std::int64_t departures(const BuildKey& key) {
  return std::ranges::count_if(key, [](std::uint8_t value) { return value != 0; });
}

reference::Choices contract_choices(const AllowedChoices& allowed) {
  std::array<std::string_view, kBuildChoices.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i)
    names[i] = allowed.values(kBuildChoices[i]).front();
  return choices_from(names);
}

bool as_declared(const reference::Choices& choices, const LayerConfig& config) {
  return choices.rope_contraction == reference::RopeContraction::fma_cos &&
         !choices.norm_materialised && choices.quantize_from == config.quantize_from &&
         choices.scale_op == config.scale_op && choices.overflow == config.overflow &&
         choices.index_q_from == config.index_q_from;
}

}  // namespace zerodiff::compare
