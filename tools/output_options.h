// The options that every reporting command has: where JSON goes, and colour.
#pragma once

#include <string>
#include <string_view>

#include "tools/terminal.h"

namespace zerodiff::tools {

struct OutputOptions {
  std::string json;  // --json: a file, "-" for standard output, empty for none
  ColorMode color = ColorMode::automatic;

  // JSON on standard output takes the place of the report for people.
  bool json_on_stdout() const { return json == "-"; }
  Painter painter() const;

  // Throws Error if the file of --json could not be written anyway; call it before the work.
  void check() const;
  // Writes the document to where --json says, if it says so. Throws Error (kInfrastructure).
  void write_json(std::string_view document) const;
  // Prints the report for people unless JSON takes its place. Throws Error (kInfrastructure).
  void write_report(std::string_view text) const;
};

}  // namespace zerodiff::tools
