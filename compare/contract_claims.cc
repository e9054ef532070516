#include "compare/contract_claims.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <variant>

#include "fixtures/capture_config.h"

namespace zerodiff::compare {
namespace {

std::string text_of(const AttributeValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  std::array<char, 32> digits;
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), std::get<float>(value)).ptr;
  return {digits.data(), end};
}

// The name of the choice that a claim is about; empty if it is about none.
std::string choice_of(const std::string& claim) {
  if (claim == "accumulator") return "accumulate";
  const auto& ids = choice_ids();
  const bool known = std::ranges::find(ids, claim, &ChoiceId::id) != ids.end();
  return known ? claim : std::string();
}

}  // namespace

std::vector<ClaimReport> contract_claims(const LayerConfig& config, const AllowedChoices& allowed,
                                         const Attributes& claims, const std::string& path,
                                         bool gates) {
  const Attributes declared = attributes_of(config);
  std::vector<ClaimReport> reports;
  for (const auto& [name, value] : claims) {
    ClaimReport claim;
    claim.path = path;
    claim.name = name;
    claim.claimed = text_of(value);
    claim.gates = gates;
    const std::string choice = choice_of(name);
    if (name == "accumulator") {  // free within what is allowed: no value is the contract's
      claim.allowed = allowed.allows(choice, claim.claimed);
      claim.contradicts = !claim.allowed;
      for (const std::string& one : allowed.values(choice)) {
        claim.contract += (claim.contract.empty() ? "" : " or ") + one;
      }
    } else if (!choice.empty()) {
      claim.contract = allowed.values(choice).front();
      claim.contradicts = claim.claimed != claim.contract;
      claim.allowed = allowed.allows(choice, claim.claimed);
    } else if (const auto known = declared.find(name); known != declared.end()) {
      claim.contract = text_of(known->second);
      claim.contradicts = claim.claimed != claim.contract;
      claim.allowed = !claim.contradicts;
    }
    reports.push_back(std::move(claim));
  }
  return reports;
}

}  // namespace zerodiff::compare
