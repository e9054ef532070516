// Aligned columns of text, with lines between the rows that belong to the row above.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/terminal.h"

namespace zerodiff::tools {

enum class Align { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
  // When the table is wider than kReportColumns, the columns that may shrink lose their middle
  // ("aiter_ab…9f1c"); the others never do.
  bool may_shrink = false;
};

struct Cell {
  std::string text;  // printable, without escape codes
  Style style = Style::plain;
};

class TextTable {
 public:
  TextTable(std::vector<Column> columns, std::size_t indent);

  // As many cells as columns.
  void add_row(std::vector<Cell> cells);
  // Complete lines (with their newline) under the last row.
  void add_lines(std::string_view lines);

  std::string render(const Painter& paint) const;

 private:
  struct Row {
    std::vector<Cell> cells;
    std::string lines_below;
  };
  std::vector<std::size_t> widths() const;
  std::string render_row(const std::vector<Cell>& cells, const std::vector<std::size_t>& widths,
                         const Painter& paint) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
  std::size_t indent_;
};

}  // namespace zerodiff::tools
