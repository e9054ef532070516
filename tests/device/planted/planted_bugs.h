// Kernels with bugs: one build of all kernels in which one bug at a time can be switched
// on. What the verifier's sensitivity is measured against.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string_view>

#include "device/host/kernel_registry.h"
#include "fixtures/layer_call.h"
#include "tests/device/planted/planted_bug.h"

namespace zerodiff::device {

struct PlantedBugInfo {
  PlantedBug bug;
  std::string_view name;         // unique
  std::string_view id;           // the fault class of docs/faults.md; two bugs may share one
  std::string_view description;  // what the kernel does wrong
};

// Its name, for GoogleTest.
void PrintTo(const PlantedBugInfo& bug, std::ostream* out);

// All bugs of the insertion kernels, and all of the kernels after insertion; PlantedBug::none is
// among neither.
std::span<const PlantedBugInfo> planted_bugs();
std::span<const PlantedBugInfo> planted_attention_bugs();

// A class of docs/faults.md, sections 1.1 to 1.8 and 1.10, that no kernel can show in one call.
struct UnplantedClass {
  std::string_view id;
  std::string_view reason;
};
std::span<const UnplantedClass> unplanted_classes();

// The kernels of the planted build, under the names of the real ones, insertion and attention.
// Without a bug switched on they compute the same.
const KernelRegistry& planted_kernels();

// Switches a bug on for as long as it lives. Not while kernels run, and one at a time.
class PlantGuard {
 public:
  PlantGuard(PlantedBug bug, const LayerCall& call);
  PlantGuard(const PlantGuard&) = delete;
  PlantGuard& operator=(const PlantGuard&) = delete;
  ~PlantGuard();
};

}  // namespace zerodiff::device
