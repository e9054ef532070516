#include "tools/json_values.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace zerodiff::tools {
namespace {

constexpr int kSchema = 1;

}  // namespace

Json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json json_ulp(std::uint64_t ulp) {
  if (ulp == std::numeric_limits<std::uint64_t>::max()) return "nan";
  return ulp;
}

std::string json_bits(std::uint64_t bits) {
  return fmt::format("{:#x}", bits);
}

Json json_document(std::string_view command, std::string_view device) {
  return {{"tool", "zerodiff"},
          {"version", ZERODIFF_VERSION},
          {"schema", kSchema},
          {"command", command},
          {"device", device}};
}

std::string json_text(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace zerodiff::tools
