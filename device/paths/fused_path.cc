#include "device/paths/fused_path.h"

#include <utility>

#include "device/paths/call_buffers.h"

namespace zerodiff::device {

PathLaunches fused_path(const LayerCall& call, const PathOptions& options) {
  PathLaunches launches;
  const BufferArgument packed{launches.list.add_input("qkv", call.qkv)};
  const CallBuffers b = add_call_buffers(launches, call, options);
  const CallScalars s = scalars_of(call);
  if (s.num_rows == 0) return launches;
  const std::int64_t heads =
      call.config.num_heads + 2 * call.config.num_kv_heads + num_index_branch_heads(call);
  Launch launch =
      tile_launch("fused_insert" + row_suffix(call) + kv_suffix(call) + index_suffix(call), call,
                  heads, options);
  launch.arguments = {packed,
                      b.q_norm_weight,
                      b.k_norm_weight,
                      b.index_q_norm_weight,
                      b.index_k_norm_weight,
                      b.cos_sin_cache,
                      b.cos_sin_rows,
                      b.positions,
                      b.slot_mapping,
                      b.index_slot_mapping,
                      b.num_tokens,
                      b.k_scale,
                      b.v_scale,
                      b.q,
                      b.index_q,
                      b.k_cache,
                      b.v_cache,
                      b.index_cache,
                      s.num_rows,
                      s.num_heads,
                      s.num_kv_heads,
                      s.num_index_heads,
                      s.rotary_dim,
                      s.num_table_rows,
                      s.eps,
                      s.scale_stride,
                      s.kv_format,
                      s.index_format,
                      s.switches};
  launches.list.add_launch(std::move(launch));
  return launches;
}

}  // namespace zerodiff::device
