// What a capture holds, as data: the flow behind `zerodiff inspect`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fixtures/capture.h"

namespace zerodiff::tools {

// Where the value of a /config attribute comes from.
enum class ConfigOrigin {
  file,           // an attribute of the file that the format knows
  default_value,  // not in the file
  unknown,        // an attribute of the file that the format does not know: kept, without effect
};

struct ConfigEntry {
  std::string name;
  AttributeValue value;
  ConfigOrigin origin = ConfigOrigin::file;
};

struct PathSummary {
  std::string name;
  std::vector<std::string> outputs;  // in the order of kOutputFields, unknown ones last
  Attributes claims;
};

struct Inspection {
  std::string file;
  std::uint64_t file_bytes = 0;
  std::string call;            // describe_call
  std::string scale_contract;  // the declared contract in one line; empty with 16-bit caches
  Attributes root;
  std::vector<ConfigEntry> config;  // known ones by name, then the unknown ones
  DigestState config_digest = DigestState::not_checked;
  std::vector<DatasetInfo> datasets;
  std::vector<PathSummary> paths;
  std::vector<std::string> exercised;  // rows, positions, requests, pool and scales in words
  std::vector<std::string> not_exercised;
  std::vector<std::string> warnings;
};

// Reads all of it, one path at a time. Throws Error (kInput) for a file that is no valid capture, a
// wrong digest in any dataset included.
Inspection inspect_capture(const std::filesystem::path& file, const ReadOptions& options);

}  // namespace zerodiff::tools
