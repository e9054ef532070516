// `zerodiff selftest`: whether a device does the few things that every kernel rests on. The device
// runs the kernels of selftest_kernels.hip.h, the CPU evaluates the same plainly
// (plain_arithmetic.h), and every element is compared.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/backend.h"

namespace zerodiff::device {

struct SelftestResult {
  std::string name;          // "division"
  std::string what;          // one line: which values
  std::int64_t checked = 0;  // elements compared; 0 never passes
  std::int64_t mismatches = 0;
  std::string first;  // of the mismatches, or the fault that ended the check
  bool passed() const { return checked > 0 && mismatches == 0 && first.empty(); }
};

struct SelftestOptions {
  // Every stride-th input alone; 1 is exhaustive where a check says so.
  std::int64_t stride = 1;
};

// One check. `run` throws Error (infrastructure) if the device fails.
struct SelftestCheck {
  std::string_view name;
  SelftestResult (*run)(Backend& backend, const SelftestOptions& options) = nullptr;
};

// In the order in which they build on each other.
std::span<const SelftestCheck> selftest_checks();

struct SelftestReport {
  std::vector<SelftestResult> results;
  bool passed() const;
};

// All checks, each whatever the others gave; a device that fails ends its check, not the rest.
SelftestReport run_selftest(Backend& backend, const SelftestOptions& options = {});

}  // namespace zerodiff::device
