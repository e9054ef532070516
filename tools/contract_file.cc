// Contract files: reading and checking (schema: docs/contracts.md).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "fixtures/error.h"
#include "tools/contract_options.h"

namespace zerodiff::tools {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostBytes = 1 << 20;
constexpr int kVersion = 1;

std::string read_text(const std::string& file) {
  std::vector<std::string> presets;
  for (const Contract& preset : contract_presets()) presets.push_back(preset.name);
  const std::string wanted =
      fmt::format("a contract file, or a preset: {}", fmt::join(presets, ", "));
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    throw Error::input(one_line(file), "contract", "no such file", wanted);
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (stream.bad() || (!stream && !stream.eof())) {
    throw Error::input(one_line(file), "contract", "a file that cannot be read", wanted);
  }
  if (text.size() > kMostBytes) {
    throw Error::input(one_line(file), "contract", "more than 1 MiB", wanted);
  }
  return text;
}

// The library would keep the last of two equal keys.
Json parse(const std::string& text, const std::string& where) {
  std::vector<std::set<std::string>> open;
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second) {
      twice = value.get<std::string>();
    }
    return true;
  };
  try {
    Json document = Json::parse(text, watch);
    if (twice.empty()) return document;
  } catch (const Json::exception& error) {
    throw Error::input(where, "contract", one_line(error.what()), "JSON");
  }
  throw Error::input(where, "contract", "key '" + one_line(twice) + "' twice", "each key once");
}

// "fma_cos", 2 and true as the names that choices have.
std::string value_name(const Json& value, const std::string& where) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean() || value.is_number_integer()) return value.dump();
  throw Error::input(where, "value", one_line(value.dump()), "a text, an integer or a boolean");
}

std::vector<std::string> value_names(const Json& values, const std::string& where) {
  if (!values.is_array()) return {value_name(values, where)};
  std::vector<std::string> names;
  for (const Json& value : values) names.push_back(value_name(value, where));
  if (names.empty()) throw Error::input(where, "values", "none", "at least one");
  return names;
}

void check_keys(const Json& document, const std::string& where) {
  if (!document.is_object()) {
    throw Error::input(where, "contract", one_line(document.type_name()), "an object");
  }
  for (const auto& [key, value] : document.items()) {
    if (key == "zerodiff_contract" || key == "choices") continue;
    if ((key == "name" || key == "source") && value.is_string()) continue;
    const bool known = key == "name" || key == "source";
    throw Error::input(where, known ? key : "key", known ? value.type_name() : one_line(key),
                       known ? "a text" : "zerodiff_contract, name, source or choices");
  }
  const auto version = document.find("zerodiff_contract");
  if (version == document.end() || !version->is_number_integer() || *version != kVersion) {
    throw Error::input(where, "zerodiff_contract",
                       version == document.end() ? "nothing" : one_line(version->dump()), "1");
  }
  const auto choices = document.find("choices");
  if (choices == document.end() || !choices->is_object()) {
    throw Error::input(where, "choices",
                       choices == document.end() ? "nothing" : choices->type_name(), "an object");
  }
}

Contract read_file(const std::string& file) {
  const std::string where = one_line(file);
  const Json document = parse(read_text(file), where);
  check_keys(document, where);
  Contract contract{where, {}};
  for (const auto& [id, values] : document.at("choices").items()) {
    std::vector<std::string> names = value_names(values, where + ": choices/" + one_line(id));
    for (const std::string& name : names) compare::check_choice(id, name, where);
    contract.choices.emplace_back(id, std::move(names));
  }
  return contract;
}

}  // namespace

Contract read_contract(const std::string& preset_or_file) {
  const auto presets = contract_presets();
  const auto preset = std::ranges::find(presets, preset_or_file, &Contract::name);
  return preset != presets.end() ? *preset : read_file(preset_or_file);
}

}  // namespace zerodiff::tools
