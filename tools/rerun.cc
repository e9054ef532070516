#include "tools/rerun.h"

#include <fmt/format.h>

namespace zerodiff::tools {

std::string shell_quoted(std::string_view argument) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/:,+=@%";
  if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(argument);
  }
  std::string quoted = "'";
  for (const char c : argument) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string rerun_line(std::string_view command, std::string_view options,
                       const std::filesystem::path& file) {
  const std::string name = file.string();
  return fmt::format("zerodiff {}{}{} {}{}", command, options.empty() ? "" : " ", options,
                     name.starts_with('-') ? "-- " : "", shell_quoted(name));
}

}  // namespace zerodiff::tools
