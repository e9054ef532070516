#include "tools/print_terminal_stage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "tools/terminal.h"

namespace zerodiff::tools {
namespace {

using compare::Headroom;
using compare::StageReport;

std::string percent(double share) {
  return std::isfinite(share) ? fmt::format("{:.3g} %", 100 * share) : "without bound";
}

std::string describe_headroom(const Headroom& headroom) {
  std::string text = fmt::format("{} of the bound at most, median {}, 90 % below {}, 99 % below {}",
                                 percent(headroom.max), percent(headroom.median),
                                 percent(headroom.p90), percent(headroom.p99));
  if (headroom.outside > 0) {
    text += fmt::format("; {} outside", counted(headroom.outside, "element"));
  }
  if (headroom.unbounded > 0) {
    text += fmt::format("; {} without a bound (binary32 may overflow)",
                        counted(headroom.unbounded, "element"));
  }
  return text;
}

std::string describe_distribution(const Headroom& headroom) {
  std::vector<std::string> bins;
  for (const compare::HeadroomBin& bin : headroom.histogram) {
    if (bin.elements == 0) continue;
    const std::string end =
        std::isfinite(bin.upper) ? "up to " + percent(bin.upper) : std::string("beyond");
    bins.push_back(fmt::format("{}: {}", end, grouped(bin.elements)));
  }
  return fmt::format("{}", fmt::join(bins, ", "));
}

std::string describe_worst(const compare::BoundedElement& worst) {
  std::vector<std::string> place;
  for (const auto& [name, value] : worst.where) place.push_back(fmt::format("{} {}", name, value));
  return fmt::format("{}: got {:.9g}, exact {:.9g}, bound {:.3g}", fmt::join(place, ", "),
                     worst.got, worst.exact, worst.bound);
}

std::string describe_model(const StageReport& report) {
  std::string text = "accumulator " + report.accumulator;
  if (!report.p_dtype.empty()) text += ", P in " + report.p_dtype;
  return text;
}

std::string describe_selection(const compare::SelectionCheck& check) {
  std::vector<std::string> parts{fmt::format("{} identical", counted(check.identical, "row"))};
  if (check.reordered > 0) parts.push_back(fmt::format("{} reordered", grouped(check.reordered)));
  if (check.tied > 0) parts.push_back(fmt::format("{} with ties", grouped(check.tied)));
  if (check.within > 0) parts.push_back(fmt::format("{} within intervals", grouped(check.within)));
  if (check.faults > 0) parts.push_back(fmt::format("{} at fault", grouped(check.faults)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string describe_blocks(const compare::SelectionDifference& row) {
  const auto list = [](const std::vector<compare::RankedBlock>& blocks) {
    std::vector<std::string> texts;
    for (const compare::RankedBlock& block : blocks) {
      texts.push_back(fmt::format("{} ({:.6g})", block.id, block.score.exact));
    }
    return texts.empty() ? std::string("none") : fmt::format("{}", fmt::join(texts, ", "));
  };
  std::vector<std::string> place;
  for (const auto& [name, value] : row.where) place.push_back(fmt::format("{} {}", name, value));
  return fmt::format("{}, {}: entered {}; left {}; gap {:.3g}", fmt::join(place, ", "),
                     name_of(row.verdict), list(row.entered), list(row.left), row.gap);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> describe_stage(const StageReport& report) {
  std::vector<std::pair<std::string, std::string>> lines;
  if (report.headroom) {
    lines.emplace_back("bound", describe_headroom(*report.headroom));
    lines.emplace_back("", describe_distribution(*report.headroom));
    if (report.headroom->worst)
      lines.emplace_back("worst", describe_worst(*report.headroom->worst));
  }
  if (!report.accumulator.empty()) lines.emplace_back("model", describe_model(report));
  if (report.resolution) {
    lines.emplace_back("sees", fmt::format("a missing token in {} of {} ({} of {} looked at)",
                                           percent(report.resolution->share()),
                                           counted(report.resolution->tokens, "token"),
                                           grouped(report.resolution->rows),
                                           counted(report.resolution->rows_in_call, "row")));
  }
  if (report.selection) {
    lines.emplace_back("rows", describe_selection(*report.selection));
    for (const compare::SelectionDifference& row : report.selection->first) {
      lines.emplace_back("blocks", describe_blocks(row));
    }
  }
  if (!report.choices.empty()) {
    lines.emplace_back("needs", fmt::format("{}", fmt::join(report.choices, ", ")));
  }
  if (!report.borrowed.empty()) {
    lines.emplace_back("lent", fmt::format("{}", fmt::join(report.borrowed, "; ")));
  }
  return lines;
}

}  // namespace zerodiff::tools
