// A BenchReport as text for people and as JSON.
#pragma once

#include <string>
#include <string_view>

#include "tools/bench_report.h"
#include "tools/terminal.h"

namespace zerodiff::tools {

std::string print_bench(const BenchReport& report, std::string_view device, const Painter& paint);
std::string print_bench_json(const BenchReport& report, std::string_view device);

// Time of unfused by time of fused of a stage that both paths have under this name; 0 without.
double fused_gain(const BenchReport& report, std::string_view stage);

}  // namespace zerodiff::tools
