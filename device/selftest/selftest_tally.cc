#include <algorithm>
#include <bit>
#include <cmath>
#include <sstream>

#include "device/selftest/selftest_checks.h"

namespace zerodiff::device {
namespace {

constexpr std::uint32_t kThreads = 256;

}  // namespace

SelftestTally::SelftestTally(std::string name, std::string what)
    : result_{.name = std::move(name), .what = std::move(what), .first = {}} {}

bool SelftestTally::ran(const RunReport& report) {
  if (report.ok()) return true;
  ++result_.mismatches;
  if (result_.first.empty()) result_.first = to_string(report.faults.front());
  return false;
}

bool SelftestTally::same(float found, float wanted) {
  if (std::isnan(wanted)) return std::isnan(found);
  return std::bit_cast<std::uint32_t>(found) == std::bit_cast<std::uint32_t>(wanted);
}

std::string SelftestTally::text(float found, float wanted) {
  return "found " + number_text(found) + ", wanted " + number_text(wanted);
}

std::string SelftestTally::text(std::int64_t found, std::int64_t wanted) {
  std::ostringstream stream;
  stream << std::hex << "found 0x" << found << ", wanted 0x" << wanted;
  return stream.str();
}

std::string number_text(float value) {
  std::ostringstream stream;
  stream.precision(9);
  stream << value << " (0x" << std::hex << std::bit_cast<std::uint32_t>(value) << ")";
  return stream.str();
}

std::vector<float> thinned(const std::vector<float>& values, std::int64_t stride,
                           std::size_t multiple) {
  std::vector<float> kept;
  for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(stride)) {
    kept.push_back(values[i]);
  }
  while (kept.size() % multiple != 0) kept.push_back(kept.back());
  return kept;
}

Launch selftest_launch(std::string kernel, std::int64_t n, std::vector<Argument> arguments) {
  return {.kernel = std::move(kernel),
          .grid = {.x = static_cast<std::uint32_t>((n + kThreads - 1) / kThreads)},
          .block = {.x = kThreads},
          .arguments = std::move(arguments)};
}

}  // namespace zerodiff::device
