// Does what a path stored in fp8 follow the scale contract that the call declares (numerics.md
// section 6)?
#pragma once

#include <string>
#include <vector>

#include "compare/report.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

struct PathOutputs {
  std::string name;
  const Outputs* outputs = nullptr;
};

// One report for each path and each fp8 tensor that it has: k, v (of an fp8 K/V cache, every
// element that a slot maps to), index_k and index_q (of an fp8 index cache; index_q of the
// scheduled rows). Paths come in the order given: put the reference first.
//
// Codes are judged against the high-precision input, which the reference computes again with the
// contract's arithmetic: z, k̂ and index_k̂ of each row, and v̂.
//
// Each path must have passed check_outputs for this call. Results do not depend on `threads` (0:
// one for each core). Throws Error (kInput) for a graph-safe slot buffer that
// reference::map_slots rejects.
Fp8ContractReport fp8_contract_report(const LayerCall& call, const std::vector<PathOutputs>& paths,
                                      int threads = 0);

}  // namespace zerodiff::compare
