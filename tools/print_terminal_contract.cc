#include "tools/print_terminal_contract.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <tuple>
#include <vector>

#include "tools/print_terminal_diagnosis.h"
#include "tools/text_table.h"

namespace zerodiff::tools {
namespace {

using compare::Fp8Clause;
using compare::Fp8TensorReport;
using compare::SlotMapReport;
using compare::SlotMapVerdict;

std::string describe_place(const compare::SlotPlace& place) {
  if (place.page < 0) return fmt::format("slot {} (stores nothing)", place.slot);
  return fmt::format("slot {} (page {}, offset {})", place.slot, place.page, place.offset);
}

std::string entries(std::int64_t count) {
  return fmt::format("{} {}", grouped(count), count == 1 ? "entry" : "entries");
}

std::string describe_first(const compare::SlotDifference& difference) {
  return fmt::format("row {}, request {}, position {}: eager {}, graph-safe {}", difference.row,
                     difference.request, difference.position, describe_place(difference.eager),
                     describe_place(difference.graph_safe));
}

// "3 of 3 scheduled rows stored, 5 padding, graph-safe buffer of 8 entries in use"
std::string describe_rows(const SlotMapReport& map) {
  std::string text = fmt::format("{} of {} stored", grouped(map.stored_rows),
                                 counted(map.scheduled_rows, "scheduled row"));
  if (map.padding_rows > 0) text += fmt::format(", {} padding", grouped(map.padding_rows));
  if (map.graph_buffer_present) {
    text += fmt::format(", graph-safe buffer of {} {}", entries(map.graph_buffer_length),
                        map.graph_buffer_used ? "in use" : "not in use");
  }
  return text;
}

std::vector<std::string> nonzero_counts(const SlotMapReport& map) {
  std::vector<std::string> parts;
  const auto add = [&](std::int64_t count, std::string_view what) {
    if (count > 0) parts.push_back(fmt::format("{} {}", grouped(count), what));
  };
  add(map.differing_rows, "differing rows");
  add(map.negative_became_real, "negative entries became real");
  add(map.stale_entries, "stale entries past the scheduled rows");
  add(map.duplicates, "duplicate entries");
  add(map.out_of_range, "entries out of range");
  add(map.block_table_disagreements, "slots disagree with the block table");
  add(map.index_block_table_disagreements, "index slots disagree with the block table");
  return parts;
}

Style style_of(SlotMapVerdict verdict) {
  if (verdict == SlotMapVerdict::not_equivalent) return Style::red;
  return verdict == SlotMapVerdict::equivalent ? Style::green : Style::dim;
}

std::string verdict_words(SlotMapVerdict verdict) {
  if (verdict == SlotMapVerdict::not_equivalent) return "not equivalent";
  return verdict == SlotMapVerdict::equivalent ? "equivalent" : "not applicable";
}

std::vector<Cell> cells_of(const Fp8TensorReport& tensor) {
  const bool right = tensor.conforms || !tensor.explained_by.empty();
  const Style style = right ? Style::green : tensor.gates ? Style::red : Style::yellow;
  return {{right          ? "✓"
           : tensor.gates ? "✗"
                          : "!",
           style},
          {tensor.tensor, Style::plain},
          {printable(tensor.path), Style::plain},
          {grouped(tensor.written), Style::plain},
          {grouped(tensor.saturated), Style::plain},
          {grouped(tensor.nan_codes), Style::plain},
          {grouped(tensor.zero_codes), Style::plain},
          {grouped(tensor.subnormal_codes), Style::plain},
          {fmt::format("{:.4g}", tensor.largest_error_steps), Style::plain},
          {tensor.conforms               ? "conforms"
           : tensor.explained_by.empty() ? "breaks it"
                                         : "allowed",
           style}};
}

std::string describe_violation(const Fp8Clause& clause) {
  return printable(fmt::format("{}: {} of {}{}{}", clause.name, grouped(clause.violations),
                               grouped(clause.checked), clause.detail.empty() ? "" : ", ",
                               clause.detail));
}

bool same_counts(const Fp8TensorReport& a, const Fp8TensorReport& b) {
  const auto counts = [](const Fp8TensorReport& tensor) {
    return std::tie(tensor.tensor, tensor.written, tensor.saturated, tensor.nan_codes,
                    tensor.zero_codes, tensor.subnormal_codes, tensor.largest_error_steps);
  };
  return counts(a) == counts(b);
}

using TensorRange = std::span<const Fp8TensorReport>;

// The tensors of one path after the other. A captured path may have the reference's name: a tensor
// that comes again begins another path.
std::vector<TensorRange> by_path(const compare::Fp8ContractReport& contract) {
  std::vector<TensorRange> ranges;
  const std::vector<Fp8TensorReport>& all = contract.tensors;
  for (auto first = all.begin(); first != all.end();) {
    const auto last = std::find_if(first, all.end(), [&](const Fp8TensorReport& tensor) {
      return tensor.path != first->path || (&tensor != &*first && tensor.tensor == first->tensor);
    });
    ranges.emplace_back(first, last);
    first = last;
  }
  return ranges;
}

// Whether a path needs no rows of its own: it conforms throughout and counts what `first` counts.
bool is_like(TensorRange first, TensorRange other) {
  return std::ranges::all_of(other, &Fp8TensorReport::conforms) &&
         std::ranges::equal(first, other, same_counts);
}

void add_rows(TextTable& table, TensorRange tensors) {
  for (const Fp8TensorReport& tensor : tensors) {
    table.add_row(cells_of(tensor));
    for (const Fp8Clause& clause : tensor.clauses) {
      if (!clause.applies || clause.violations == 0) continue;
      table.add_lines(wrapped("        breaks ", describe_violation(clause)));
    }
    if (tensor.inference && !tensor.conforms) {
      table.add_lines(wrapped("        codes: ", printable(inference_text(*tensor.inference))));
    }
    if (!tensor.explained_by.empty()) {
      table.add_lines(wrapped("        but    ", printable("legal: " + tensor.explained_by)));
    }
  }
}

TextTable fp8_table() {
  return TextTable({{"", Align::left},
                    {"tensor", Align::left},
                    {"path", Align::left, true},
                    {"written", Align::right},
                    {"saturated", Align::right},
                    {"nan", Align::right},
                    {"zero", Align::right},
                    {"subnormal", Align::right},
                    {"error/step", Align::right},
                    {"verdict", Align::left}},
                   2);
}

}  // namespace

std::string section_label(std::string_view name) {
  return fmt::format("  {:<{}}", name, kSectionIndent - 2);
}

std::string print_list(std::string_view name, std::span<const std::string> texts) {
  std::string lines;
  for (const std::string& text : texts) {
    lines += wrapped(section_label(lines.empty() ? name : ""), printable(text));
  }
  return lines;
}

std::string print_slot_map(const SlotMapReport& map, const Painter& paint) {
  std::string verdict = paint(style_of(map.verdict), verdict_words(map.verdict));
  if (!map.reason.empty()) verdict += ": " + printable(map.reason);
  std::string text = wrapped(section_label("slot map"), verdict + "; " + describe_rows(map));
  const std::vector<std::string> counts = nonzero_counts(map);
  if (!counts.empty()) {
    text += wrapped(section_label(""), fmt::format("{}", fmt::join(counts, ", ")));
  }
  if (map.first_difference) {
    text += wrapped(section_label(""), "first: " + describe_first(*map.first_difference));
  }
  return text;
}

std::string print_fp8_contract(const compare::CaseReport& report, const Painter& paint) {
  const compare::Fp8ContractReport& contract = report.fp8_contract;
  if (!contract.applies) return {};
  std::string text = wrapped(section_label("fp8 contract"), printable(contract.declared));
  if (contract.tensors.empty()) return text;
  const std::vector<TensorRange> paths = by_path(contract);
  TextTable table = fp8_table();
  std::vector<std::string> alike;
  for (const TensorRange tensors : paths) {
    const std::string& path = tensors.front().path;
    const bool first = tensors.data() == paths.front().data();
    if (!first && is_like(paths.front(), tensors)) {
      alike.push_back(path);
      continue;
    }
    if (!first) table.add_lines("\n");
    add_rows(table, tensors);
  }
  text += '\n' + table.render(paint);
  if (!alike.empty()) {
    if (alike.size() + 1 < paths.size()) text += '\n';
    text += wrapped(fmt::format("  {}  ", paint(Style::green, "✓")),
                    printable(fmt::format("{}: every tensor conforms, with the counts of {}",
                                          fmt::join(alike, ", "), paths.front().front().path)));
  }
  return text + '\n';
}

}  // namespace zerodiff::tools
