// Which captured paths a verification gates on: --paths and --strict.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zerodiff::tools {

struct PathSelection {
  std::vector<std::string> names;  // of --paths, without "all"
  bool all = false;                // --paths all
  bool strict = false;             // --strict

  // Whether anything but the own paths gates.
  bool asks_for_paths() const { return all || strict || !names.empty(); }
  bool gates(std::string_view path) const;

  // Why a capture with these paths lacks what was asked for: a named path that it does not have, or
  // no path at all where all are asked for. Empty if it lacks nothing.
  std::string lacking(std::span<const std::string> available) const;

  // The options that make the same selection, "--paths atom_fused --strict"; may be empty.
  std::string as_options() const;
};

// `paths`: the values of --paths, each a name or several with commas between.
// Throws Error (kUsage) for an empty name or one that no path can have.
PathSelection parse_path_selection(std::span<const std::string> paths, bool strict);

}  // namespace zerodiff::tools
