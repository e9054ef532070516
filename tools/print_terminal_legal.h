// What explains an output, and what a path claims, in the report for the terminal.
#pragma once

#include <string>
#include <vector>

#include "compare/report.h"

namespace zerodiff::tools {

// What an output was explained with, and what is left: one line each, not wrapped.
std::vector<std::string> describe_legal(const compare::LegalReport& report);

// One line for each claim.
std::vector<std::string> describe_claims(const std::vector<compare::ClaimReport>& claims);

}  // namespace zerodiff::tools
