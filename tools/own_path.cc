#include "tools/own_path.h"

#include <array>
#include <cassert>

#include "reference/layer.h"

namespace zerodiff::tools {
namespace {

constexpr std::array<std::string_view, 1> kNames{kReferencePath};

}  // namespace

std::span<const std::string_view> own_path_names() {
  return kNames;
}

Outputs run_own_path([[maybe_unused]] std::string_view name, const LayerCall& call, int threads) {
  assert(name == kReferencePath);
  return reference::run_insertion(call, {}, threads);
}

}  // namespace zerodiff::tools
