#include "tools/print_terminal_inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "tools/attribute_text.h"
#include "tools/text_table.h"

namespace zerodiff::tools {
namespace {

std::string heading(std::string_view name, const Painter& paint) {
  return '\n' + paint(Style::bold, name) + '\n';
}

std::string print_attributes(const Attributes& attributes) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : attributes) {
    parts.push_back(fmt::format("{} = {}", printable(name), to_text(value)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string_view remark(ConfigOrigin origin) {
  if (origin == ConfigOrigin::default_value) return "default";
  return origin == ConfigOrigin::unknown ? "unknown attribute, has no effect" : "";
}

Style style_of(DigestState state) {
  return state == DigestState::verified ? Style::green : Style::yellow;
}

std::string print_config(const Inspection& inspection, const Painter& paint) {
  TextTable table({{"attribute"}, {"value"}, {""}}, 2);
  for (const ConfigEntry& entry : inspection.config) {
    const Style style = entry.origin == ConfigOrigin::unknown ? Style::yellow : Style::dim;
    table.add_row({{printable(entry.name)},
                   {to_text(entry.value)},
                   {std::string(remark(entry.origin)), style}});
  }
  std::string text = heading("config", paint) + table.render(paint);
  text += fmt::format("  digest: {}\n",
                      paint(style_of(inspection.config_digest), name_of(inspection.config_digest)));
  if (inspection.scale_contract.empty()) return text;
  return text + wrapped("  scale contract: ", inspection.scale_contract);
}

std::uint64_t bytes_of(const DatasetInfo& dataset) {
  return static_cast<std::uint64_t>(element_count(dataset.shape, dataset.name)) *
         element_size(dataset.type);
}

// "/outputs/fused" and "q".
std::pair<std::string, std::string> split_name(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  if (slash == std::string::npos) return {"", name};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

std::string print_datasets(const Inspection& inspection, const Painter& paint) {
  TextTable table({{"dataset"}, {"dtype"}, {"shape"}, {"size", Align::right}, {"digest"}}, 2);
  std::string current;
  for (const DatasetInfo& dataset : inspection.datasets) {
    const auto [group, name] = split_name(dataset.name);
    if (group != current) table.add_row({{printable(group), Style::bold}, {}, {}, {}, {}});
    current = group;
    table.add_row({{"  " + printable(name)},
                   {std::string(name_of(dataset.type))},
                   {to_string(dataset.shape)},
                   {readable_bytes(bytes_of(dataset))},
                   {std::string(name_of(dataset.digest)), style_of(dataset.digest)}});
    if (!dataset.note.empty()) table.add_lines(wrapped("      note: ", printable(dataset.note)));
  }
  return heading("datasets", paint) + table.render(paint);
}

std::string print_paths(const Inspection& inspection, const Painter& paint) {
  std::string text = heading("paths", paint);
  if (inspection.paths.empty()) return text + "  none\n";
  for (const PathSummary& path : inspection.paths) {
    const std::string claims = path.claims.empty()
                                   ? std::string("the contract that the call declares")
                                   : print_attributes(path.claims);
    text += "  " + paint(Style::bold, printable(path.name)) + '\n';
    text += wrapped("    outputs: ", printable(fmt::format("{}", fmt::join(path.outputs, ", "))));
    text += wrapped("    claims:  ", claims);
  }
  return text;
}

std::string print_lines(std::string_view name, const std::vector<std::string>& lines,
                        const Painter& paint) {
  if (lines.empty()) return {};
  std::string text = heading(name, paint);
  for (const std::string& line : lines) text += wrapped("  ", printable(line));
  return text;
}

}  // namespace

std::string print_inspection(const Inspection& inspection, const Painter& paint) {
  std::string text = paint(Style::bold, printable(inspection.file)) +
                     fmt::format(" ({})\n", readable_bytes(inspection.file_bytes));
  text += wrapped("  ", inspection.call);
  if (!inspection.root.empty()) text += wrapped("  ", print_attributes(inspection.root));
  text += print_config(inspection, paint);
  text += print_datasets(inspection, paint);
  text += print_paths(inspection, paint);
  text += print_lines("exercised", inspection.exercised, paint);
  text += print_lines("not exercised", inspection.not_exercised, paint);
  text += print_lines("warnings", inspection.warnings, paint);
  return text;
}

}  // namespace zerodiff::tools
