// The contract that captured paths are judged by: --contract and --allow.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compare/allowed_choices.h"

namespace zerodiff::tools {

// Choices of numerics.md section 14 by id, each with the values that are allowed, the contract's
// own first.
struct Contract {
  std::string name;  // "atom", or the file
  std::vector<std::pair<std::string, std::vector<std::string>>> choices;
};

// aiter, atom, sglang, torch, vllm: what these implementations do (docs/contracts.md).
std::span<const Contract> contract_presets();

// The preset of that name or the contract file (schema: docs/contracts.md). A file whose name is a
// preset's needs a folder in front, ./atom. Throws Error: kInput for a file that cannot be read or
// does not follow the schema, one line with the key at fault.
Contract read_contract(const std::string& preset_or_file);

struct ContractOptions {
  std::string source;  // of --contract, as given; empty: the call's own contract
  Contract contract;
  std::vector<std::pair<std::string, std::string>> allow;  // id, value

  // What a call with this configuration allows: without --contract its own contract and what needs
  // no declaration, with it only what the contract names, the call's own values elsewhere; in both
  // cases --allow comes on top.
  compare::AllowedChoices allowed(const LayerConfig& config) const;
  // The options that say the same, "--contract atom --allow scale_op=divide"; may be empty.
  std::string as_options() const;
};

// `allow`: the values of --allow, each "id=value". Throws Error: kUsage for one that has another
// form or names no choice, and as read_contract.
ContractOptions parse_contract_options(const std::string& contract,
                                       std::span<const std::string> allow);

}  // namespace zerodiff::tools
