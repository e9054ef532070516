// Faulty results of generated calls, made with the tests' own oracle: what the diagnosis is held
// against. Nothing of compare/ or reference/ takes part in making them.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "fixtures/generator.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

struct FaultyResult {
  LayerCall call;
  Outputs outputs;
};

struct FaultCase {
  std::string name;                  // unique
  std::string id;                    // of docs/faults.md
  std::string stage;                 // where it is to be placed
  std::vector<std::string> tensors;  // that it may change: "k", "q", ...
  FaultyResult (*make)(std::uint64_t seed);
};
void PrintTo(const FaultCase& fault, std::ostream* out);

const std::vector<FaultCase>& fault_cases();

}  // namespace zerodiff::compare
