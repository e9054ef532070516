#include "tests/device/planted/planted_bugs.h"

#include <cassert>
#include <ostream>

namespace zerodiff::device {
namespace {

constexpr PlantedBugInfo kBugs[] = {
#define ZERODIFF_PLANTED_BUG(name, id, what) {PlantedBug::name, #name, id, what},
    ZERODIFF_PLANTED_BUGS(ZERODIFF_PLANTED_BUG)
#undef ZERODIFF_PLANTED_BUG
};

constexpr PlantedBugInfo kAttentionBugs[] = {
#define ZERODIFF_PLANTED_BUG(name, id, what) {PlantedBug::name, #name, id, what},
    ZERODIFF_PLANTED_ATTENTION_BUGS(ZERODIFF_PLANTED_BUG)
#undef ZERODIFF_PLANTED_BUG
};

constexpr std::string_view kDynamicScales = "the call does not compute scales";

constexpr UnplantedClass kUnplanted[] = {
    {"fp8-max-constant", kDynamicScales},
    {"scale-applied-to-unquantised", "a call with 16-bit caches brings no scales to apply"},
    {"scale-layer-alias", "needs several layers"},
    {"scale-stale", "needs two calls with different scales"},
    {"scale-not-carried", "needs a pool that moves"},
    {"scale-amax-wrong-source", kDynamicScales},
    {"scale-floor-clamped", kDynamicScales},
    {"scale-zero-amax", kDynamicScales},
    {"scale-rounding-omitted", kDynamicScales},
    {"index-cache-plane-mixup", "the index cache has no scales"},
    {"rope-angle-fastmath", "the call brings its cosines and sines"},
    {"rope-mscale", "the call brings its cosines and sines"},
    {"compiler-miscompile", "shows between two builds of one source"},
    {"attn-masked-first-chunk-nan", "every block of a table row has a live token"},
};

}  // namespace

void PrintTo(const PlantedBugInfo& bug, std::ostream* out) {
  *out << bug.name;
}

std::span<const PlantedBugInfo> planted_bugs() {
  return kBugs;
}

std::span<const PlantedBugInfo> planted_attention_bugs() {
  return kAttentionBugs;
}

std::span<const UnplantedClass> unplanted_classes() {
  return kUnplanted;
}

PlantGuard::PlantGuard(PlantedBug bug, const LayerCall& call) {
  assert(planted::active == PlantedBug::none);
  planted::active = bug;
  planted::num_rows = call.capacity();
  planted::pool_slots = call.num_slots();
}

PlantGuard::~PlantGuard() {
  planted::active = PlantedBug::none;
}

}  // namespace zerodiff::device
