// JSON values shared by the printers. Include it in printers' .cc files only: it is heavy.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tools/open_device.h"

namespace zerodiff::tools {

// Keys keep the order in which they were added.
using Json = nlohmann::ordered_json;

// The number, or "inf", "-inf", "nan".
Json json_number(double value);
// The distance, or "nan" for UINT64_MAX.
Json json_ulp(std::uint64_t ulp);
// "0x3f80"
std::string json_bits(std::uint64_t bits);

// The keys with which every document begins: tool, version, schema, command, device.
Json json_document(std::string_view command, std::string_view device = kReferenceDevice);

// The text of a document; bytes that are not UTF-8 (file names, attributes) become U+FFFD.
std::string json_text(const Json& document);

}  // namespace zerodiff::tools
