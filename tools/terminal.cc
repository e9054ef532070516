#include "tools/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "fixtures/error.h"

namespace zerodiff::tools {
namespace {

std::string_view escape_code(Style style) {
  switch (style) {
    case Style::bold:
      return "\x1b[1m";
    case Style::dim:
      return "\x1b[2m";
    case Style::green:
      return "\x1b[32m";
    case Style::yellow:
      return "\x1b[33m";
    case Style::red:
      return "\x1b[1;31m";
    case Style::plain:
      break;
  }
  return "";
}

bool is_control(unsigned char byte) {
  return byte < 0x20 || byte == 0x7f;
}

// U+0080..U+009F, which some terminals obey as control characters.
bool is_c1_control(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]) == 0xc2 && at + 1 < text.size() &&
         static_cast<unsigned char>(text[at + 1]) >= 0x80 &&
         static_cast<unsigned char>(text[at + 1]) < 0xa0;
}

bool environment_says_plain() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return (no_color != nullptr && *no_color != '\0') ||
         (term != nullptr && std::strcmp(term, "dumb") == 0);
}

}  // namespace

bool use_color(ColorMode mode, int file_descriptor) {
  if (mode != ColorMode::automatic) return mode == ColorMode::always;
  return isatty(file_descriptor) == 1 && !environment_says_plain();
}

std::string Painter::operator()(Style style, std::string_view text) const {
  if (!color_ || style == Style::plain || text.empty()) return std::string(text);
  return fmt::format("{}{}\x1b[0m", escape_code(style), text);
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool c1 = is_c1_control(text, i);
    result += c1 || is_control(static_cast<unsigned char>(text[i])) ? '?' : text[i];
    if (c1) ++i;
  }
  return result;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  bool in_escape = false;
  for (const char c : text) {
    if (c == '\x1b') in_escape = true;
    const bool continues = (static_cast<unsigned char>(c) & 0xc0u) == 0x80u;
    if (!in_escape && !continues) ++width;
    if (c == 'm') in_escape = false;
  }
  return width;
}

std::string grouped_unsigned(std::uint64_t count) {
  const std::string digits = std::to_string(count);
  std::string result;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) result += ',';
    result += digits[i];
  }
  return result;
}

std::string grouped(std::int64_t count) {
  if (count >= 0) return grouped_unsigned(static_cast<std::uint64_t>(count));
  return fmt::format("-{}", grouped_unsigned(~static_cast<std::uint64_t>(count) + 1));
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(count), noun, count == 1 ? "" : "s");
}

std::string readable_bytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits.at(unit));
}

std::string readable_number(double value) {
  constexpr std::size_t kShort = 12;
  if (std::isnan(value)) return "nan";
  std::string exact = fmt::format("{}", value);
  return exact.size() <= kShort ? exact : fmt::format("{:.6g}", value);
}

std::string wrapped_words(std::string_view first, std::span<const std::string> words) {
  const std::size_t indent = display_width(first);
  std::string result(first);
  std::size_t column = indent;
  for (const std::string& word : words) {
    if (column > indent && column + 1 + display_width(word) > kReportColumns) {
      result += '\n';
      result.append(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      result += ' ';
      ++column;
    }
    result += word;
    column += display_width(word);
  }
  result.erase(result.find_last_not_of(' ') + 1);
  return result + '\n';
}

std::string wrapped(std::string_view first, std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin) words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return wrapped_words(first, words);
}

void write_stdout(std::string_view text) {
  const std::size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written != text.size() || std::fflush(stdout) != 0) {
    throw Error::infrastructure("standard output", std::strerror(errno));
  }
}

}  // namespace zerodiff::tools
