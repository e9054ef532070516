// Layer calls and comparisons for the tests of kernels and paths.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "device/backend.h"
#include "device/paths/run_path.h"
#include "fixtures/generator.h"
#include "fixtures/layer_call.h"

namespace zerodiff::device {

// A call that a test names.
struct NamedCall {
  std::string name;
  GeneratorOptions options;
  // Applied to the generated call; null if it stays as it is.
  void (*edit)(LayerCall&) = nullptr;

  LayerCall make() const;
};

void PrintTo(const NamedCall& named, std::ostream* out);

// Calls that between them reach each way through the kernels: both storages and batch modes, 16-bit
// and fp8 caches, both granularities, padding and empty rows, whole and scattered runs of V, and
// activations that underflow, overflow and are NaN.
const std::vector<NamedCall>& named_calls();

// "" if both have the same tensors of the same bits, NaNs being equal to each other except in K/V
// caches of 16 bits; otherwise what differs first. `call` is the one that they were made of.
std::string first_difference(const LayerCall& call, const Outputs& a, const Outputs& b);

// The outputs of a run that must not have faults (a test failure otherwise, and no outputs).
Outputs run_without_faults(const LayerCall& call, PathKind kind, Backend& backend,
                           const PathOptions& options = {});

// Whether the row is stored to the caches, and the K/V slot that it goes to in pages of the pool,
// by numerics.md section 7.
bool row_is_stored(const LayerCall& call, std::int64_t row);
std::int64_t physical_slot(const LayerCall& call, std::int64_t row);

}  // namespace zerodiff::device
