// Which slot a row is stored to (numerics.md section 7).
#pragma once

#include <cstdint>

#include "fixtures/layer_call.h"

namespace zerodiff::oracle {

// Where one row of a batch goes; negative: nowhere.
struct RowSlots {
  std::int64_t kv = -1;     // rebased if the storage is block_contiguous
  std::int64_t scale = -1;  // the slot before any rebase, which head_slot scales are indexed by
  std::int64_t index = -1;
};

RowSlots slots_of_row(const LayerCall& call, std::int64_t row);

}  // namespace zerodiff::oracle
