#include "tools/print_json_legal.h"

#include <string>

#include "compare/legal_search.h"

namespace zerodiff::tools {
namespace {

using compare::LegalReport;

Json heads_by_ulp_json(const LegalReport& report) {
  Json json = Json::object();
  for (std::int64_t ulp = -LegalReport::kMostUlps; ulp <= LegalReport::kMostUlps; ++ulp) {
    json[std::to_string(ulp)] =
        report.heads_by_ulp[static_cast<std::size_t>(ulp + LegalReport::kMostUlps)];
  }
  return json;
}

Json place_json(const std::optional<compare::Coordinates>& place) {
  if (!place) return nullptr;
  Json json = Json::object();
  for (const auto& [name, value] : *place) json[name] = value;
  return json;
}

}  // namespace

Json legal_json(const LegalReport& report) {
  Json choices = Json::array();
  for (const compare::ChoiceFinding& choice : report.choices) {
    choices.push_back({{"id", choice.id},
                       {"value", choice.value},
                       {"of_the_contract", choice.of_the_contract},
                       {"as_good", choice.as_good}});
  }
  return {{"summary", summary(report)},
          {"choices", choices},
          {"heads", report.heads},
          {"heads_by_ulp", heads_by_ulp_json(report)},
          {"heads_by_sum_order", report.heads_by_sum_order},
          {"largest_move", report.largest_move},
          {"heads_unexplained", report.heads_unexplained},
          {"elements_explained", report.elements_explained},
          {"elements_unexplained", report.elements_unexplained},
          {"first_unexplained", place_json(report.first_unexplained)}};
}

Json claims_json(const std::vector<compare::ClaimReport>& claims) {
  Json json = Json::array();
  for (const compare::ClaimReport& claim : claims) {
    json.push_back({{"path", claim.path},
                    {"name", claim.name},
                    {"claimed", claim.claimed},
                    {"contract", claim.contract},
                    {"contradicts", claim.contradicts},
                    {"allowed", claim.allowed},
                    {"gates", claim.gates}});
  }
  return json;
}

}  // namespace zerodiff::tools
