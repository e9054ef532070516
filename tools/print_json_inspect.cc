#include "tools/print_json_inspect.h"

#include <fmt/format.h>

#include <cstdlib>

#include "tools/json_values.h"

namespace zerodiff::tools {
namespace {

// A float as the shortest decimal that rounds to it: 1e-06, not 9.99999997475e-07.
Json attribute_json(const AttributeValue& value) {
  if (const float* number = std::get_if<float>(&value)) {
    return json_number(std::strtod(fmt::format("{}", *number).c_str(), nullptr));
  }
  return std::visit([](const auto& other) { return Json(other); }, value);
}

Json attributes_json(const Attributes& attributes) {
  Json json = Json::object();
  for (const auto& [name, value] : attributes) json[name] = attribute_json(value);
  return json;
}

std::string_view name_of(ConfigOrigin origin) {
  if (origin == ConfigOrigin::default_value) return "default";
  return origin == ConfigOrigin::unknown ? "unknown" : "file";
}

Json dataset_json(const DatasetInfo& dataset) {
  return {{"name", dataset.name},         {"dtype", zerodiff::name_of(dataset.type)},
          {"shape", dataset.shape},       {"digest", zerodiff::name_of(dataset.digest)},
          {"xxh3_128", dataset.xxh3_128}, {"note", dataset.note}};
}

Json capture_json(const Inspection& inspection) {
  Json config = Json::array();
  for (const ConfigEntry& entry : inspection.config) {
    config.push_back({{"name", entry.name},
                      {"value", attribute_json(entry.value)},
                      {"origin", name_of(entry.origin)}});
  }
  Json datasets = Json::array();
  for (const DatasetInfo& dataset : inspection.datasets) datasets.push_back(dataset_json(dataset));
  Json paths = Json::array();
  for (const PathSummary& path : inspection.paths) {
    paths.push_back(
        {{"name", path.name}, {"outputs", path.outputs}, {"claims", attributes_json(path.claims)}});
  }
  return {{"file", inspection.file},
          {"bytes", inspection.file_bytes},
          {"call", inspection.call},
          {"scale_contract", inspection.scale_contract},
          {"attributes", attributes_json(inspection.root)},
          {"config", config},
          {"config_digest", zerodiff::name_of(inspection.config_digest)},
          {"datasets", datasets},
          {"paths", paths},
          {"exercised", inspection.exercised},
          {"not_exercised", inspection.not_exercised},
          {"warnings", inspection.warnings}};
}

}  // namespace

std::string print_json(const Inspection& inspection) {
  Json document = json_document("inspect");
  document["capture"] = capture_json(inspection);
  return json_text(document);
}

}  // namespace zerodiff::tools
