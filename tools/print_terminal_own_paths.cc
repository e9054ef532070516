#include "tools/print_terminal_own_paths.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "tools/own_path.h"
#include "tools/print_terminal_contract.h"

namespace zerodiff::tools {
namespace {

using compare::CaseReport;

// "slot 3, page 0, head 1"
std::string place_text(const std::optional<compare::Coordinates>& place) {
  std::vector<std::string> words;
  if (place) {
    for (const auto& [name, value] : *place) words.push_back(fmt::format("{} {}", name, value));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

// The pairs of own paths, as one line when there is nothing to see.
std::string describe_pair(const CaseReport& report) {
  std::size_t outputs = 0;
  for (const compare::Comparison& comparison : report.comparisons) {
    if (comparison.against == kReferencePath || !comparison.gates) continue;
    if (comparison.verdict == compare::Verdict::absent) continue;
    if (comparison.verdict != compare::Verdict::identical) return {};  // has a row of its own
    ++outputs;
  }
  if (outputs == 0) return {};
  return fmt::format("fused = unfused in {} outputs, max abs error 0", outputs);
}

std::string describe(const compare::WriteSetReport& set) {
  if (set.holds()) return {};
  std::string text = fmt::format("{} {}: missed {}, extra {}, dependent on the fill {} bytes",
                                 set.path, set.output, grouped(set.missed_bytes),
                                 grouped(set.extra_bytes), grouped(set.fill_dependent_bytes));
  for (const auto& [what, place] :
       {std::pair{"missed", &set.first_missed}, std::pair{"extra", &set.first_extra},
        std::pair{"dependent", &set.first_fill_dependent}}) {
    if (*place) text += fmt::format("; first {} at {}", what, place_text(*place));
  }
  return text;
}

std::vector<std::string> write_set_lines(const CaseReport& report) {
  std::vector<std::string> lines;
  std::vector<std::string> exact;
  for (const compare::WriteSetReport& set : report.write_set) {
    if (!set.holds()) {
      lines.push_back(describe(set));
    } else if (set.path == report.write_set.front().path) {
      exact.push_back(fmt::format("{} {}", set.output, grouped(set.written_bytes)));
    }
  }
  if (lines.empty() && !exact.empty()) {
    lines.push_back(fmt::format("exact in both paths (bytes: {}), whatever was there before",
                                fmt::join(exact, ", ")));
  }
  return lines;
}

std::string describe(const compare::GraphSafeReport& replay) {
  const bool layer = replay.scope == compare::GraphScope::layer;
  const std::string what = layer ? replay.path + " (whole layer)" : replay.path;
  if (!replay.equivalent) return fmt::format("{}: differs with {}", what, replay.first_difference);
  const std::string replays =
      layer ? counted(static_cast<std::int64_t>(replay.live_counts.size()), "replay") + ", " : "";
  return fmt::format("{}: eager ≡ graph-safe, {}live rows {}", what, replays,
                     fmt::join(replay.live_counts, ", "));
}

std::vector<std::string> graph_safe_lines(const CaseReport& report) {
  std::vector<std::string> lines;
  for (const compare::GraphSafeReport& replay : report.graph_safe) {
    lines.push_back(describe(replay));
  }
  return lines;
}

std::vector<std::string> repeat_lines(const CaseReport& report) {
  std::vector<std::string> lines;
  for (const compare::RepeatReport& repeat : report.repeats) {
    lines.push_back(repeat.equal
                        ? fmt::format("{}: {} runs, the same bytes", repeat.path, repeat.runs)
                        : fmt::format("{}: {}", repeat.path, repeat.first_difference));
  }
  for (const compare::InvarianceReport& rows : report.invariance) {
    lines.push_back(rows.invariant ? fmt::format("{}: rows {} the same alone and at index 17",
                                                 rows.path, fmt::join(rows.rows, ", "))
                                   : fmt::format("{}: {}", rows.path, rows.first_difference));
  }
  return lines;
}

std::vector<std::string> poison_lines(const CaseReport& report) {
  std::vector<std::string> lines;
  std::vector<std::string> unchanged;
  for (const compare::PoisonReport& poison : report.poison) {
    if (poison.unchanged) {
      unchanged.push_back(fmt::format("{} ({})", poison.path, poison.fill));
    } else {
      lines.push_back(fmt::format("{} changes under {} poison: {}", poison.path, poison.fill,
                                  poison.first_difference));
    }
  }
  if (lines.empty() && !unchanged.empty()) {
    lines.push_back(
        fmt::format("no effect on selection and attention: {}", fmt::join(unchanged, ", ")));
  }
  return lines;
}

}  // namespace

std::string print_own_paths(const CaseReport& report, const Painter& paint) {
  std::string text;
  const std::string pair = describe_pair(report);
  if (!pair.empty()) text += print_list("own paths", std::vector{pair});
  text += print_list("write set", write_set_lines(report));
  text += print_list("graph-safe", graph_safe_lines(report));
  text += print_list("repeats", repeat_lines(report));
  text += print_list("poison", poison_lines(report));
  std::vector<std::string> faults;
  for (const compare::PathFault& fault : report.path_faults) {
    faults.push_back(printable(fault.path + ": " + fault.text));
  }
  if (!faults.empty()) text += paint(Style::red, print_list("kernel faults", faults));
  return text;
}

}  // namespace zerodiff::tools
