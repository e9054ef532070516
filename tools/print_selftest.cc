// Prints a self-test, for people and as JSON.
#include <fmt/format.h>

#include <algorithm>

#include "tools/command_selftest.h"
#include "tools/json_values.h"
#include "tools/text_table.h"

namespace zerodiff::tools {
namespace {

Json result_json(const device::SelftestResult& result) {
  return {{"name", result.name},
          {"what", result.what},
          {"passed", result.passed()},
          {"checked", result.checked},
          {"mismatches", result.mismatches},
          {"first", result.first}};
}

void add_row(TextTable& table, const device::SelftestResult& result) {
  const bool passed = result.passed();
  const Style style = passed ? Style::green : Style::red;
  table.add_row({{passed ? "✓" : "✗", style},
                 {result.name},
                 {grouped(result.checked)},
                 {passed ? "0" : grouped(result.mismatches), passed ? Style::plain : Style::red},
                 {result.what, Style::dim}});
  if (!result.first.empty()) table.add_lines(wrapped("      ", printable(result.first)));
}

}  // namespace

std::string print_terminal(const device::SelftestReport& report, std::string_view device,
                           const Painter& paint) {
  TextTable table({{""},
                   {"check"},
                   {"elements", Align::right},
                   {"wrong", Align::right},
                   {"", Align::left, true}},
                  2);
  for (const device::SelftestResult& result : report.results) add_row(table, result);
  const auto failed =
      std::ranges::count_if(report.results, [](const auto& r) { return !r.passed(); });
  return paint(Style::bold, fmt::format("self-test of {}", device)) + "\n\n" + table.render(paint) +
         '\n' +
         (report.passed() ? paint(Style::green, "PASSED")
                          : paint(Style::red, fmt::format("FAILED: {} of {} checks", failed,
                                                          report.results.size()))) +
         '\n';
}

std::string print_json(const device::SelftestReport& report, std::string_view device) {
  Json document = json_document("selftest", device);
  document["passed"] = report.passed();
  document["checks"] = Json::array();
  for (const device::SelftestResult& result : report.results) {
    document["checks"].push_back(result_json(result));
  }
  return json_text(document);
}

}  // namespace zerodiff::tools
