#include "tools/contract_options.h"

#include <fmt/format.h>

#include "fixtures/error.h"
#include "tools/rerun.h"

namespace zerodiff::tools {

compare::AllowedChoices ContractOptions::allowed(const LayerConfig& config) const {
  compare::AllowedChoices choices = source.empty() ? compare::AllowedChoices(config)
                                                   : compare::AllowedChoices::contract_only(config);
  for (const auto& [id, values] : contract.choices) choices.replace(id, values, contract.name);
  for (const auto& [id, value] : allow) choices.allow(id, value, "--allow");
  return choices;
}

std::string ContractOptions::as_options() const {
  std::string options;
  if (!source.empty()) options = "--contract " + shell_quoted(source);
  for (const auto& [id, value] : allow) {
    options += fmt::format("{}--allow {}={}", options.empty() ? "" : " ", id, value);
  }
  return options;
}

ContractOptions parse_contract_options(const std::string& contract,
                                       std::span<const std::string> allow) {
  ContractOptions options;
  options.source = contract;
  if (!contract.empty()) options.contract = read_contract(contract);
  for (const std::string& text : allow) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
      throw Error::usage(fmt::format(
          "--allow: found '{}', wanted id=value, for example quantize_from=fp32", one_line(text)));
    }
    options.allow.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    compare::check_choice(options.allow.back().first, options.allow.back().second, "--allow");
  }
  return options;
}

}  // namespace zerodiff::tools
