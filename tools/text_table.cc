#include "tools/text_table.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

namespace zerodiff::tools {
namespace {

constexpr std::size_t kGap = 2;            // between columns
constexpr std::size_t kLeastShrunken = 8;  // no column loses more than makes it this narrow

// ASCII only, as output and path names are.
std::string shortened(const std::string& text, std::size_t width) {
  if (display_width(text) <= width) return text;
  const std::size_t tail = (width - 1) / 2;
  const std::size_t head = width - 1 - tail;
  return text.substr(0, head) + "…" + text.substr(text.size() - tail);
}

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

TextTable::TextTable(std::vector<Column> columns, std::size_t indent)
    : columns_(std::move(columns)), indent_(indent) {}

void TextTable::add_row(std::vector<Cell> cells) {
  assert(cells.size() == columns_.size());
  rows_.push_back({std::move(cells), {}});
}

void TextTable::add_lines(std::string_view lines) {
  assert(!rows_.empty());
  rows_.back().lines_below += lines;
}

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = display_width(columns_[i].title);
    for (const Row& row : rows_) width = std::max(width, display_width(row.cells[i].text));
    result.push_back(width);
  }
  const std::size_t gaps = kGap * (columns_.size() - 1);
  const std::size_t total = std::accumulate(result.begin(), result.end(), indent_ + gaps);
  std::size_t excess = total > kReportColumns ? total - kReportColumns : 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (!columns_[i].may_shrink || result[i] <= kLeastShrunken) continue;
    const std::size_t cut = std::min(excess, result[i] - kLeastShrunken);
    result[i] -= cut;
    excess -= cut;
  }
  return result;
}

std::string TextTable::render_row(const std::vector<Cell>& cells,
                                  const std::vector<std::size_t>& widths,
                                  const Painter& paint) const {
  std::string line(indent_, ' ');
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string text = shortened(cells[i].text, widths[i]);
    const std::string padding(widths[i] - std::min(widths[i], display_width(text)), ' ');
    if (i > 0) line.append(kGap, ' ');
    if (columns_[i].align == Align::right) line += padding;
    line += paint(cells[i].style, text);
    if (columns_[i].align == Align::left) line += padding;
  }
  return without_trailing_spaces(std::move(line)) + '\n';
}

std::string TextTable::render(const Painter& paint) const {
  const std::vector<std::size_t> width = widths();
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.push_back({column.title, Style::dim});
  std::string text = render_row(titles, width, paint);
  for (const Row& row : rows_) text += render_row(row.cells, width, paint) + row.lines_below;
  return text;
}

}  // namespace zerodiff::tools
