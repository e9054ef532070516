// The rules behind not_exercised: each looks at a call and says why it cannot show something.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compare/report.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// A call, and what several rules ask about it.
struct Facts {
  const LayerCall& call;
  const Fp8ContractReport& fp8;
  std::vector<std::int64_t> positions;  // of scheduled rows that are not empty
  std::vector<std::int64_t> slots;      // of rows that store, before any rebase
  std::vector<float> k_scales;          // those in use; none with `auto`
  std::vector<float> v_scales;

  const LayerConfig& config() const { return call.config; }
  bool fp8_kv() const { return config().kv_cache_dtype.has_value(); }
};

using Why = std::optional<std::string>;

inline Why when(bool holds, std::string why) {
  if (!holds) return std::nullopt;
  return why;
}

struct Rule {
  const char* id;
  Why (*why)(const Facts&);  // nullopt: the call exercises it
};

std::span<const Rule> code_rules();
std::span<const Rule> row_rules();
std::span<const Rule> pool_rules();

}  // namespace zerodiff::compare
