// The sections of a case's block below its table: slot map, fp8 scale contract, lists of lines.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "compare/report.h"
#include "tools/terminal.h"

namespace zerodiff::tools {

// Column in which the text of a section begins; its label stands before.
inline constexpr std::size_t kSectionIndent = 17;

// "  slot map       ", kSectionIndent columns wide.
std::string section_label(std::string_view name);

// One wrapped line for each text, the first one labelled. Empty without texts.
std::string print_list(std::string_view name, std::span<const std::string> texts);

std::string print_slot_map(const compare::SlotMapReport& map, const Painter& paint);
// Of the case's paths; empty with 16-bit caches.
std::string print_fp8_contract(const compare::CaseReport& report, const Painter& paint);

}  // namespace zerodiff::tools
