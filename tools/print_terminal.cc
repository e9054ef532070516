#include "tools/print_terminal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tools/own_path.h"
#include "tools/print_terminal_contract.h"
#include "tools/print_terminal_diagnosis.h"
#include "tools/print_terminal_legal.h"
#include "tools/print_terminal_own_paths.h"
#include "tools/print_terminal_stage.h"
#include "tools/text_table.h"

namespace zerodiff::tools {
namespace {

using compare::CaseReport;
using compare::Comparison;
using compare::ElementDifference;
using compare::Outcome;
using compare::Verdict;

constexpr std::size_t kRowIndent = 2;
constexpr std::string_view kBelowRow = "        ";  // what stands under a row of the table

bool differs(const Comparison& comparison) {
  return comparison.verdict == Verdict::different || comparison.verdict == Verdict::fault;
}

// A mark and a colour for a row, so that the eye finds it with and without colours.
std::pair<std::string_view, Style> look_of(const Comparison& comparison) {
  if (comparison.verdict == Verdict::absent) return {"-", Style::dim};
  if (!differs(comparison)) return {"✓", Style::green};
  return comparison.gates ? std::pair{"✗", Style::red} : std::pair{"!", Style::yellow};
}

// Words that stay together: "slot 1280,", "expected -2.5 (0xc2),".
std::vector<std::string> describe_difference(const ElementDifference& difference) {
  std::vector<std::string> words;
  for (const auto& [name, value] : difference.where) {
    words.push_back(value < 0 ? "no " + name + "," : fmt::format("{} {},", name, value));
  }
  if (!words.empty()) words.back().back() = ':';
  words.push_back(fmt::format("expected {} ({:#x}),", readable_number(difference.expected),
                              difference.expected_bits));
  words.push_back(
      fmt::format("got {} ({:#x})", readable_number(difference.got), difference.got_bits));
  return words;
}

// "written 27 of 640, untouched 0 of 228,736" where there is more than one part and a mismatch.
std::string describe_regions(const Comparison& comparison) {
  std::vector<std::string> parts;
  std::int64_t mismatches = 0;
  for (const compare::Region& region : comparison.regions) {
    if (region.tally.elements == 0) continue;
    mismatches += region.tally.mismatches;
    parts.push_back(fmt::format("{} {} of {}{}", region.name, grouped(region.tally.mismatches),
                                grouped(region.tally.elements),
                                region.counts ? "" : " (decides nothing)"));
  }
  if (parts.size() < 2 || mismatches == 0) return {};
  return fmt::format("{}", fmt::join(parts, ", "));
}

// "7 (0.25)", "8 (0.5, forced local)"; the id alone if it has no score.
std::string describe_selected(const compare::SelectedBlock& selected) {
  std::vector<std::string> facts;
  if (selected.score) facts.push_back(readable_number(*selected.score));
  if (!selected.forced.empty()) facts.push_back("forced " + selected.forced);
  if (facts.empty()) return fmt::format("{}", selected.block);
  return fmt::format("{} ({})", selected.block, fmt::join(facts, ", "));
}

std::string describe_selected(const std::vector<compare::SelectedBlock>& blocks) {
  if (blocks.empty()) return "none";
  std::vector<std::string> texts;
  texts.reserve(blocks.size());
  for (const compare::SelectedBlock& block : blocks) texts.push_back(describe_selected(block));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string describe_row(const compare::TopkRowDifference& row) {
  std::string text = fmt::format("token {}, kv head {}: ", row.token, row.kv_head);
  if (row.entered.empty() && row.left.empty()) {
    text += "the same blocks in another order";
  } else {
    text += fmt::format("entered {}; left {}", describe_selected(row.entered),
                        describe_selected(row.left));
  }
  if (row.gap) {
    text += fmt::format("; worst selected {}, best left out {}, gap {}",
                        describe_selected(*row.worst_selected),
                        describe_selected(*row.best_left_out), readable_number(*row.gap));
  }
  return text;
}

// Block ids with their scores, a line for each of the first rows that differ.
std::string describe_topk(const compare::TopkDifference& topk, std::string_view label) {
  std::string lines;
  for (const compare::TopkRowDifference& row : topk.first) {
    lines += wrapped(label, describe_row(row));
  }
  const auto more = topk.rows - static_cast<std::int64_t>(topk.first.size());
  if (more > 0) lines += wrapped(label, fmt::format("and {} more", counted(more, "row")));
  return lines;
}

std::string lines_below(const Comparison& comparison, const Painter& paint) {
  const auto label = [&](std::string_view name) {
    return fmt::format("{}{}", kBelowRow, paint(Style::dim, fmt::format("{:<7}", name)));
  };
  std::string lines;
  const std::string regions = describe_regions(comparison);
  if (!regions.empty()) lines += wrapped(label("in"), regions);
  if (comparison.total.worst) {
    lines += wrapped_words(label("worst"), describe_difference(*comparison.total.worst));
  }
  if (comparison.legal) {
    const bool fault = comparison.verdict == Verdict::fault;
    for (const std::string& text : describe_legal(*comparison.legal)) {
      lines += wrapped(label(fault ? "legal?" : "legal"), text);
    }
  }
  if (comparison.judged_stage) {
    for (const auto& [name, text] : describe_stage(*comparison.judged_stage)) {
      lines += wrapped(label(name), printable(text));
    }
  }
  if (comparison.topk) lines += describe_topk(*comparison.topk, label("blocks"));
  for (const compare::Diagnosis& diagnosis : comparison.diagnoses) {
    lines += diagnosis_lines(diagnosis, kBelowRow.size());
  }
  if (!comparison.note.empty()) lines += wrapped(label("note"), printable(comparison.note));
  return lines;
}

std::string max_ulp_text(const compare::Tally& tally) {
  return tally.max_ulp == UINT64_MAX ? "nan" : grouped_unsigned(tally.max_ulp);
}

std::vector<Cell> cells_of(const Comparison& comparison, bool one_pair) {
  const auto [mark, style] = look_of(comparison);
  const compare::Tally& total = comparison.total;
  const bool by_stage = comparison.scope == compare::Scope::stage;
  std::vector<Cell> cells{{std::string(mark), style}, {(by_stage ? "↳ " : "") + comparison.output}};
  if (!one_pair) {
    const bool own_pair = comparison.against != kReferencePath;
    cells.push_back(
        {printable(own_pair ? comparison.path + " / " + comparison.against : comparison.path)});
  }
  cells.push_back({grouped(total.elements)});
  cells.push_back({grouped(total.mismatches)});
  cells.push_back({readable_number(total.max_abs_error)});
  cells.push_back({max_ulp_text(total)});
  cells.push_back({name_of(comparison.verdict), style});
  return cells;
}

// One own path against another gets a row only if there is something to see; otherwise
// print_own_paths sums it up.
bool is_quiet(const Comparison& comparison, const CaseResult& result) {
  return !result.one_pair && comparison.against != kReferencePath && !differs(comparison);
}

TextTable comparison_table(bool one_pair) {
  std::vector<Column> columns{{""}, {"output"}};
  if (!one_pair) columns.push_back({"path", Align::left, true});
  for (const char* title : {"elements", "mismatches", "max abs error", "max ulp"}) {
    columns.push_back({title, Align::right});
  }
  columns.push_back({"verdict"});
  return {std::move(columns), kRowIndent};
}

std::string print_comparisons(const CaseResult& result, const Painter& paint) {
  TextTable table = comparison_table(result.one_pair);
  const std::string* path = nullptr;
  for (const Comparison& comparison : result.report.comparisons) {
    if (comparison.verdict == Verdict::absent || is_quiet(comparison, result)) continue;
    if (path != nullptr && *path != comparison.path) table.add_lines("\n");
    path = &comparison.path;
    table.add_row(cells_of(comparison, result.one_pair));
    table.add_lines(lines_below(comparison, paint));
  }
  return path != nullptr ? '\n' + table.render(paint) + '\n' : std::string();
}

// What stands above the table: the capture, its call and, for a single pair, who is who.
std::string print_header(const CaseResult& result, const Painter& paint) {
  const CaseReport& report = result.report;
  std::string text = paint(Style::bold, printable(report.capture)) + '\n';
  if (!result.call.empty()) text += wrapped("  ", result.call);
  if (!result.stage.empty()) {
    const std::string inputs =
        result.stage_inputs.empty() ? "the call" : "the outputs of " + result.stage_inputs;
    text += wrapped("  ", printable(fmt::format("stage {} alone, on {}", result.stage, inputs)));
  }
  if (result.one_pair && !report.comparisons.empty()) {
    text += wrapped("  ", printable(fmt::format("{} against {}", report.comparisons[0].path,
                                                report.comparisons[0].against)));
  }
  return text;
}

// Outputs without a verdict, those of one path and one reason in one line.
std::string print_absent(const CaseReport& report, bool one_pair) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> outputs;
  for (const Comparison& comparison : report.comparisons) {
    if (comparison.verdict == Verdict::absent) {
      outputs[{comparison.path, comparison.note}].push_back(comparison.output);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [key, names] : outputs) {
    const auto& [path, note] = key;
    const std::string who = one_pair ? std::string() : path + ": ";
    lines.push_back(printable(
        fmt::format("{}{}{}", who, fmt::join(names, ", "), note.empty() ? "" : " (" + note + ")")));
  }
  return print_list("not compared", lines);
}

// By id only: each line is "id: why", and `inspect` has the reasons.
std::string print_not_exercised(const CaseReport& report) {
  if (report.not_exercised.empty()) return {};
  std::vector<std::string> ids;
  for (const std::string& line : report.not_exercised)
    ids.push_back(line.substr(0, line.find(':')));
  const std::array<std::string, 1> text{
      fmt::format("{} (why: zerodiff inspect)", fmt::join(ids, ", "))};
  return print_list("not exercised", text);
}

Style style_of(Outcome outcome) {
  if (outcome == Outcome::passed) return Style::green;
  return outcome == Outcome::skipped ? Style::yellow : Style::red;
}

// Whether the stage of an end-to-end comparison's output was judged on the path's own inputs, and
// that decides.
bool decided_by_stage(const CaseReport& report, const Comparison& end_to_end) {
  return std::ranges::any_of(report.comparisons, [&](const Comparison& comparison) {
    const bool lengths =
        comparison.output == "sparse_block_table" && end_to_end.output == "sparse_context_lens";
    return comparison.judged_stage && comparison.gates && comparison.path == end_to_end.path &&
           (comparison.output == end_to_end.output || lengths);
  });
}

// Why a case with differences may still have passed.
std::string describe_ungated(const CaseReport& report) {
  std::set<std::string> paths;
  std::int64_t count = 0;
  for (const Comparison& comparison : report.comparisons) {
    if (!differs(comparison) || comparison.gates) continue;
    if (decided_by_stage(report, comparison)) continue;
    paths.insert(name_of_captured(comparison.path));
    ++count;
  }
  if (count == 0) return {};
  return fmt::format("{} of {} differ{} and did not gate (--paths {} makes {} gate)",
                     counted(count, "output"), fmt::join(paths, ", "), count == 1 ? "s" : "",
                     fmt::join(paths, ","), count == 1 ? "it" : "them");
}

std::string print_outcome(const CaseResult& result, const Painter& paint) {
  const CaseReport& report = result.report;
  const std::string name = name_of(report.outcome);
  const std::string reason =
      report.outcome == Outcome::passed ? describe_ungated(report) : printable(report.reason);
  std::string first(kRowIndent, ' ');
  first += paint(style_of(report.outcome), name);
  first.append(name.size() + 4 < kSectionIndent ? kSectionIndent - kRowIndent - name.size() : 2,
               ' ');
  std::string text = wrapped(first, reason);
  if (report.outcome != Outcome::passed && !result.rerun.empty()) {
    text += "  re-run: " + printable(result.rerun) + '\n';  // in one line, to be copied
  }
  return text;
}

}  // namespace

std::string print_case(const CaseResult& result, const Painter& paint) {
  const CaseReport& report = result.report;
  std::string text = print_header(result, paint);
  text += print_comparisons(result, paint);
  text += print_absent(report, result.one_pair);
  text += print_own_paths(report, paint);
  if (!result.call.empty() && !result.one_pair) text += print_slot_map(report.slot_map, paint);
  text += print_fp8_contract(report, paint);
  text += print_list("claims", describe_claims(report.claims));
  text += print_list("warnings", report.warnings);
  text += print_not_exercised(report);
  text += print_outcome(result, paint);
  return text + '\n';
}

std::string print_summary(std::span<const CaseResult> cases, const Painter& paint) {
  constexpr std::array<std::pair<Outcome, std::string_view>, 8> kWords{{
      {Outcome::passed, "passed"},
      {Outcome::failed, "failed"},
      {Outcome::missing, "missing"},
      {Outcome::mistrusted, "mistrusted"},
      {Outcome::invalid_input, "invalid"},
      {Outcome::crashed, "crashed"},
      {Outcome::timed_out, "timed out"},
      {Outcome::skipped, "skipped"},
  }};
  std::vector<std::string> parts;
  for (const auto& [outcome, word] : kWords) {
    const auto count = std::count_if(cases.begin(), cases.end(), [&, wanted = outcome](auto& one) {
      return one.report.outcome == wanted;
    });
    const bool always = outcome == Outcome::passed || outcome == Outcome::failed;
    if (count == 0 && !always) continue;
    const Style style = count == 0 ? Style::plain : style_of(outcome);
    parts.push_back(paint(style, fmt::format("{} {}", count, word)));
  }
  return fmt::format("{}\n", fmt::join(parts, ", "));
}

}  // namespace zerodiff::tools
