#include "tools/path_selection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fixtures/error.h"

namespace zerodiff::tools {
namespace {

bool is_path_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  return !name.empty() && name.find_first_not_of(kAllowed) == std::string_view::npos;
}

bool contains(std::span<const std::string> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void add_name(PathSelection& selection, const std::string& name) {
  if (!is_path_name(name)) {
    throw Error::usage(
        fmt::format("--paths: '{}' is no path name (letters, digits, '_', '.' and '-')", name));
  }
  if (name == "all") {
    selection.all = true;
  } else if (!contains(selection.names, name)) {
    selection.names.push_back(name);
  }
}

}  // namespace

bool PathSelection::gates(std::string_view path) const {
  return all || strict || contains(names, path);
}

std::string PathSelection::lacking(std::span<const std::string> available) const {
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    if (!contains(available, name)) missing.push_back(name);
  }
  if (!missing.empty()) {
    return fmt::format("no path {} in this capture, which has {}", fmt::join(missing, ", "),
                       available.empty() ? "none" : fmt::format("{}", fmt::join(available, ", ")));
  }
  if ((all || strict) && available.empty()) return "no path in this capture";
  return {};
}

std::string PathSelection::as_options() const {
  std::vector<std::string> listed = names;
  if (all) listed.insert(listed.begin(), "all");
  std::string options;
  if (!listed.empty()) options = fmt::format("--paths {}", fmt::join(listed, ","));
  if (strict) options += options.empty() ? "--strict" : " --strict";
  return options;
}

PathSelection parse_path_selection(std::span<const std::string> paths, bool strict) {
  PathSelection selection;
  selection.strict = strict;
  for (const std::string& value : paths) {
    for (std::size_t first = 0; first <= value.size();) {
      const std::size_t end = std::min(value.find(',', first), value.size());
      add_name(selection, value.substr(first, end - first));
      first = end + 1;
    }
  }
  return selection;
}

}  // namespace zerodiff::tools
