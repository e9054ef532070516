#include "tools/output_options.h"

#include <unistd.h>

#include "tools/atomic_file.h"

namespace zerodiff::tools {

Painter OutputOptions::painter() const {
  return Painter(use_color(color, STDOUT_FILENO));
}

void OutputOptions::check() const {
  if (!json.empty() && !json_on_stdout()) check_writable(json, "--json");
}

void OutputOptions::write_json(std::string_view document) const {
  if (json.empty()) return;
  if (json_on_stdout()) return write_stdout(document);
  write_file_atomically(json, document);
}

void OutputOptions::write_report(std::string_view text) const {
  if (!json_on_stdout()) write_stdout(text);
}

}  // namespace zerodiff::tools
