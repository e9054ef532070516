// JSON reports as tests read them. Heavy: include it in few tests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zerodiff::test {

using Json = nlohmann::json;

// Runs the tool with --json into a file of its own and returns what it wrote; the exit code goes
// to `exit_code` if that is not null. Fails the test if there is no JSON.
Json report_of(std::vector<std::string> arguments, int* exit_code = nullptr);

// The comparison of one output of one path in one case, of one scope unless that is empty; fails the
// test if there is not exactly one.
Json comparison_of(const Json& report_case, const std::string& path, const std::string& output,
                   const std::string& scope = {});

// The report without what two runs on equal input may differ in.
Json without_times(Json report);

}  // namespace zerodiff::test
