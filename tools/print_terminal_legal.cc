#include "tools/print_terminal_legal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "tools/terminal.h"
#include "tools/text_table.h"

namespace zerodiff::tools {
namespace {

using compare::ChoiceFinding;
using compare::ClaimReport;
using compare::LegalReport;

// "-1 ulp in 2, +1 in 3 heads"
std::string describe_moves(const LegalReport& report) {
  std::vector<std::string> moves;
  for (std::int64_t ulp = -LegalReport::kMostUlps; ulp <= LegalReport::kMostUlps; ++ulp) {
    const std::int64_t heads =
        report.heads_by_ulp[static_cast<std::size_t>(ulp + LegalReport::kMostUlps)];
    if (ulp == 0 || heads == 0) continue;
    moves.push_back(
        fmt::format("{:+}{} in {}", ulp, moves.empty() ? " ulp" : "", counted(heads, "head")));
  }
  return fmt::format("{}", fmt::join(moves, ", "));
}

// "rope_contraction separate (or fma_sin)": the others in parentheses explain it as well.
std::string describe_choice(const ChoiceFinding& choice) {
  std::string text = choice.id + " " + choice.value;
  if (!choice.as_good.empty()) text += fmt::format(" (or {})", fmt::join(choice.as_good, ", "));
  return text;
}

// Choices of the contract that others equal are named where r was moved: one of the others may be
// what the kernel does instead.
std::string describe_explained(const LegalReport& report) {
  std::vector<std::string> parts;
  for (const ChoiceFinding& choice : report.choices) {
    if (!choice.of_the_contract) parts.push_back(describe_choice(choice));
  }
  const std::string moves = describe_moves(report);
  if (!moves.empty()) parts.push_back("rsqrt " + moves);
  if (report.heads_by_sum_order > 0) {
    parts.push_back(fmt::format("sumsq_order in {}, r up to {:+} ulp",
                                counted(report.heads_by_sum_order, "head"), report.largest_move));
  }
  for (const ChoiceFinding& choice : report.choices) {
    if (choice.of_the_contract && !choice.as_good.empty() && report.moves_r()) {
      parts.push_back(describe_choice(choice));
    }
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string describe_unexplained(const LegalReport& report) {
  std::string text =
      fmt::format("no allowed choice explains {} of {} ({})", grouped(report.heads_unexplained),
                  counted(report.heads, "head"), counted(report.elements_unexplained, "element"));
  if (!report.first_unexplained) return text;
  std::vector<std::string> where;
  for (const auto& [name, value] : *report.first_unexplained) {
    where.push_back(value < 0 ? "no " + name : fmt::format("{} {}", name, value));
  }
  return text + ", first " + fmt::format("{}", fmt::join(where, ", "));
}

}  // namespace

std::vector<std::string> describe_legal(const LegalReport& report) {
  std::vector<std::string> lines;
  const std::string explained = describe_explained(report);
  if (!explained.empty() && report.heads_unexplained < report.heads) {
    lines.push_back(fmt::format(
        "{}; explains {} of {}, with {} of {}", explained,
        grouped(report.heads - report.heads_unexplained), counted(report.heads, "head"),
        grouped(report.elements_explained),
        counted(report.elements_explained + report.elements_unexplained, "differing element")));
  }
  if (report.heads_unexplained > 0) lines.push_back(describe_unexplained(report));
  return lines;
}

std::vector<std::string> describe_claims(const std::vector<ClaimReport>& claims) {
  std::vector<std::string> lines;
  for (const ClaimReport& claim : claims) {
    std::string judged;
    if (claim.contract.empty()) {
      judged = "no contract has it";
    } else if (claim.contradicts) {
      judged = fmt::format("the contract has {}{}", claim.contract,
                           claim.allowed ? ", and allows it" : ", and does not allow it");
    } else {
      judged = claim.name == "accumulator" ? "allowed" : "as the contract";
    }
    lines.push_back(fmt::format("{}: {} {} ({})", claim.path, claim.name, claim.claimed, judged));
  }
  return lines;
}

}  // namespace zerodiff::tools
