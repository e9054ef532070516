// A layer call as buffers and scalars of kernel launches: what the unfused and the fused path
// share.
#pragma once

#include <cstdint>
#include <string>

#include "device/launch_list.h"
#include "device/paths/path_launches.h"
#include "fixtures/layer_call.h"

namespace zerodiff::device {

// Arguments of the call's tensors; null where the call, or its contract, has none.
struct CallBuffers {
  Argument q_norm_weight;
  Argument k_norm_weight;
  Argument index_q_norm_weight;
  Argument index_k_norm_weight;
  Argument cos_sin_cache;
  Argument cos_sin_rows;
  Argument positions;
  Argument slot_mapping;  // or page16_slot_mapping, see kv_slots_are_rebased()
  Argument index_slot_mapping;
  Argument num_tokens;  // int32 [1] on the device: a replayed graph may change it
  Argument k_scale;
  Argument v_scale;
  Argument q;
  Argument index_q;
  Argument k_cache;
  Argument v_cache;
  Argument index_cache;
};

// The call's scalars, as kernels take them (device/kernels/contract.h, docs/kernels.md).
struct CallScalars {
  std::int32_t num_rows;
  std::int32_t num_heads;
  std::int32_t num_kv_heads;
  std::int32_t num_index_heads;
  std::int32_t rotary_dim;
  std::int64_t num_table_rows;
  float eps;
  std::int64_t scale_stride;
  std::int32_t kv_format;
  std::int32_t index_format;
  std::uint32_t switches;
};

// Whether K and V go by the graph-safe buffer, whose slots are rebased already: in graph batches
// with block_contiguous storage, if its length is the batch's capacity (numerics.md section 7).
bool kv_slots_are_rebased(const LayerCall& call);

// Adds everything but the packed rows, and the results q, index_q and the caches.
CallBuffers add_call_buffers(PathLaunches& launches, const LayerCall& call,
                             const PathOptions& options);
// Throws Error (input) for a call with 2^31 rows or more.
CallScalars scalars_of(const LayerCall& call);

// Suffixes of kernel names: "_bf16" or "_fp16"; "_auto" or "_fp8".
std::string row_suffix(const LayerCall& call);
std::string kv_suffix(const LayerCall& call);
std::string index_suffix(const LayerCall& call);

// Heads that have an index branch to work on: niq + 1, or 0 with skip_index_branch.
std::int64_t num_index_branch_heads(const LayerCall& call);

// A launch over tiles of 16 rows, whose y axis splits `heads` (at least 1).
Launch tile_launch(std::string kernel, const LayerCall& call, std::int64_t heads,
                   const PathOptions& options);

}  // namespace zerodiff::device
