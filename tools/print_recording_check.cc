// Prints what came back of a recording, for people and as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/command_recording.h"
#include "tools/json_values.h"
#include "tools/text_table.h"

namespace zerodiff::tools {
namespace {

using State = device::BufferCheck::State;

std::string launch_names(const device::RecordingCheck& check,
                         const std::vector<std::size_t>& launches) {
  std::vector<std::string> names;
  names.reserve(launches.size());
  for (const std::size_t launch : launches) names.push_back(check.launches[launch]);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string bits_text(const device::BufferCheck& buffer, std::uint64_t bits) {
  return fmt::format("0x{:0{}x}", bits, 2 * element_size(buffer.type));
}

Json buffer_json(const device::RecordingCheck& check, const device::BufferCheck& buffer) {
  Json json{{"name", buffer.name},
            {"file", buffer.file},
            {"role", device::name_of(buffer.role)},
            {"element_type", zerodiff::name_of(buffer.type)},
            {"elements", buffer.elements},
            {"state", device::name_of(buffer.state)},
            {"different", buffer.different},
            {"nan_payloads", buffer.nan_payloads},
            {"launches", Json::array()}};
  for (const std::size_t launch : buffer.launches) {
    json["launches"].push_back(check.launches[launch]);
  }
  if (buffer.state == State::different || buffer.state == State::nan_payloads) {
    json["first"] = {{"element", buffer.first},
                     {"found", bits_text(buffer, buffer.found)},
                     {"wanted", bits_text(buffer, buffer.wanted)}};
  }
  return json;
}

std::string_view mark(State state) {
  if (state == State::different) return "✗";
  return state == State::not_compared ? "-" : "✓";
}

Style style_of(State state) {
  if (state == State::different) return Style::red;
  return state == State::not_compared ? Style::dim : Style::green;
}

std::string verdict(const device::BufferCheck& buffer) {
  if (buffer.state != State::nan_payloads) {
    return buffer.state == State::not_compared ? "not compared"
                                               : std::string(device::name_of(buffer.state));
  }
  return counted(buffer.nan_payloads, "other NaN payload");
}

void add_row(TextTable& table, const device::RecordingCheck& check,
             const device::BufferCheck& buffer) {
  table.add_row({{std::string(mark(buffer.state)), style_of(buffer.state)},
                 {printable(buffer.name)},
                 {std::string(device::name_of(buffer.role))},
                 {std::string(zerodiff::name_of(buffer.type))},
                 {grouped(buffer.elements)},
                 {buffer.state == State::not_compared ? "" : grouped(buffer.different)},
                 {verdict(buffer), style_of(buffer.state)}});
  if (buffer.state != State::different) return;
  table.add_lines(wrapped(
      "      ", fmt::format("first: element {}, found {}, wanted {}; used by {}", buffer.first,
                            bits_text(buffer, buffer.found), bits_text(buffer, buffer.wanted),
                            launch_names(check, buffer.launches))));
}

std::string closing(const device::RecordingCheck& check, const Painter& paint) {
  const auto different =
      std::ranges::count(check.buffers, State::different, &device::BufferCheck::state);
  if (different == 0) return paint(Style::green, "PASSED") + "\n";
  std::string text = paint(Style::red, fmt::format("FAILED: {} of {} buffers differ", different,
                                                   check.buffers.size())) +
                     "\n";
  const auto* suspects = check.suspects();
  if (suspects == nullptr) return text;
  return text + wrapped("look first at: ", launch_names(check, *suspects));
}

}  // namespace

std::string print_terminal(const device::RecordingCheck& check, const std::string& recording,
                           const Painter& paint) {
  TextTable table({{""},
                   {"buffer"},
                   {"role"},
                   {"type"},
                   {"elements", Align::right},
                   {"different", Align::right},
                   {""}},
                  2);
  for (const device::BufferCheck& buffer : check.buffers) add_row(table, check, buffer);
  return fmt::format("{}: {}\n\n", paint(Style::bold, printable(recording)),
                     counted(static_cast<std::int64_t>(check.launches.size()), "recorded kernel")) +
         table.render(paint) + '\n' + closing(check, paint);
}

std::string print_json(const device::RecordingCheck& check, const std::string& recording) {
  Json document = json_document("replay");
  document["recording"] = recording;
  document["passed"] = check.ok();
  document["launches"] = check.launches;
  document["buffers"] = Json::array();
  for (const device::BufferCheck& buffer : check.buffers) {
    document["buffers"].push_back(buffer_json(check, buffer));
  }
  return json_text(document);
}

}  // namespace zerodiff::tools
