// Text for people: colour, grouping of digits, wrapping, and checked output.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace zerodiff::tools {

// Reports fit a terminal of this many columns, whatever the real one has: two runs give the same
// text.
inline constexpr std::size_t kReportColumns = 100;

enum class Style { plain, bold, dim, green, yellow, red };
enum class ColorMode { automatic, always, never };

// Whether to colour what goes to `file_descriptor`. Automatic: only a terminal, and neither with
// NO_COLOR set to a non-empty value (no-color.org) nor with TERM=dumb.
bool use_color(ColorMode mode, int file_descriptor);

// Puts escape codes around text, or nothing.
class Painter {
 public:
  explicit Painter(bool color) : color_(color) {}
  std::string operator()(Style style, std::string_view text) const;

 private:
  bool color_;
};

// Names and attributes come out of files: control characters (C0, DEL and C1) become '?', so that a
// file cannot drive the terminal.
std::string printable(std::string_view text);

// Columns that UTF-8 text takes, one a code point (nothing wider is ever printed); a Painter's
// escape codes take none.
std::size_t display_width(std::string_view text);

// "229,376"
std::string grouped(std::int64_t count);
std::string grouped_unsigned(std::uint64_t count);
// "1 element", "3 elements"
std::string counted(std::int64_t count, std::string_view noun);
// "2.9 MiB"
std::string readable_bytes(std::uint64_t bytes);
// Exact if that is short, otherwise six digits: "0", "0.001953125", "0.341797", "inf", "nan".
std::string readable_number(double value);

// `first` followed by the words with spaces between, broken between words so that no line is longer
// than kReportColumns (a single longer word excepted); lines after the first are indented as far as
// `first` is wide. Without words `first` stands without its trailing spaces. Ends with a newline.
std::string wrapped_words(std::string_view first, std::span<const std::string> words);
// The same of a text's words, which spaces part.
std::string wrapped(std::string_view first, std::string_view text);

// Throws Error (kInfrastructure) if standard output takes no more.
void write_stdout(std::string_view text);

}  // namespace zerodiff::tools
