#include "device/paths/unfused_path.h"

#include <utility>

#include "device/kernels/contract.h"
#include "device/paths/call_buffers.h"

namespace zerodiff::device {
namespace {

// Between the stages.
struct StageBuffers {
  Argument packed;
  Argument k_fp32;  // z of k and index_k, if a cache is quantised from it
  Argument kv_slots;
};

StageBuffers add_stage_buffers(LaunchList& list, const LayerCall& call) {
  const LayerConfig& config = call.config;
  StageBuffers buffers;
  buffers.packed = BufferArgument{list.add_buffer(
      {.name = "packed",
       .type = call.qkv.type(),
       .count = call.qkv.size(),
       .role = BufferRole::scratch,
       .initial = {.kind = InitialContent::Kind::bytes, .bytes = call.qkv.bytes()}})};
  buffers.kv_slots =
      BufferArgument{list.add_scratch("kv_slots", ElementType::int64, call.capacity())};
  const bool quantises =
      config.kv_cache_dtype || (config.index_cache_dtype && !config.skip_index_branch);
  buffers.k_fp32 = NullArgument{};
  if (quantises && config.quantize_from == QuantizeFrom::fp32) {
    buffers.k_fp32 = BufferArgument{list.add_scratch(
        "k_fp32", ElementType::float32, call.capacity() * (config.num_kv_heads + 1) * kHeadDim)};
  }
  return buffers;
}

Launch qk_norm_rope(const LayerCall& call, const PathOptions& options, const CallBuffers& b,
                    const StageBuffers& stage, const CallScalars& s) {
  const std::int64_t heads =
      call.config.num_heads + call.config.num_kv_heads + num_index_branch_heads(call);
  Launch launch =
      tile_launch("qk_norm_rope" + row_suffix(call) + index_suffix(call), call, heads, options);
  launch.arguments = {stage.packed,
                      b.q_norm_weight,
                      b.k_norm_weight,
                      b.index_q_norm_weight,
                      b.index_k_norm_weight,
                      b.cos_sin_cache,
                      b.cos_sin_rows,
                      b.positions,
                      b.q,
                      b.index_q,
                      stage.k_fp32,
                      s.num_rows,
                      s.num_heads,
                      s.num_kv_heads,
                      s.num_index_heads,
                      s.rotary_dim,
                      s.num_table_rows,
                      s.eps,
                      s.index_format,
                      s.switches};
  return launch;
}

Launch slot_mapping(const LayerCall& call, const CallBuffers& b, const StageBuffers& stage,
                    const CallScalars& s) {
  Launch launch;
  launch.kernel = "slot_mapping";
  launch.grid = {
      static_cast<std::uint32_t>((call.capacity() + kThreadsPerBlock - 1) / kThreadsPerBlock)};
  launch.block = {kThreadsPerBlock};
  launch.arguments = {b.slot_mapping, b.positions, b.num_tokens,
                      stage.kv_slots, s.num_rows,  s.switches};
  return launch;
}

Launch reshape_and_cache(const LayerCall& call, const PathOptions& options, const CallBuffers& b,
                         const StageBuffers& stage, const CallScalars& s) {
  const std::string row = call.config.kv_cache_dtype ? row_suffix(call) : "";
  Launch launch = tile_launch("reshape_and_cache" + row + kv_suffix(call), call,
                              call.config.num_kv_heads, options);
  launch.arguments = {stage.packed, stage.k_fp32,   stage.kv_slots,    b.k_scale,
                      b.v_scale,    b.k_cache,      b.v_cache,         s.num_rows,
                      s.num_heads,  s.num_kv_heads, s.num_index_heads, s.scale_stride,
                      s.kv_format,  s.switches};
  return launch;
}

Launch index_cache_insert(const LayerCall& call, const PathOptions& options, const CallBuffers& b,
                          const StageBuffers& stage, const CallScalars& s) {
  const std::string row = call.config.index_cache_dtype ? row_suffix(call) : "";
  Launch launch = tile_launch("index_cache_insert" + row + index_suffix(call), call, 1, options);
  launch.arguments = {stage.packed,   stage.k_fp32,      b.index_slot_mapping, b.positions,
                      b.num_tokens,   b.index_cache,     s.num_rows,           s.num_heads,
                      s.num_kv_heads, s.num_index_heads, s.index_format};
  return launch;
}

}  // namespace

PathLaunches unfused_path(const LayerCall& call, const PathOptions& options) {
  PathLaunches launches;
  const StageBuffers stage = add_stage_buffers(launches.list, call);
  const CallBuffers b = add_call_buffers(launches, call, options);
  const CallScalars s = scalars_of(call);
  if (s.num_rows == 0) return launches;
  launches.list.add_launch(qk_norm_rope(call, options, b, stage, s));
  launches.list.add_launch(slot_mapping(call, b, stage, s));
  launches.list.add_launch(reshape_and_cache(call, options, b, stage, s));
  if (!call.config.skip_index_branch) {
    launches.list.add_launch(index_cache_insert(call, options, b, stage, s));
  }
  return launches;
}

}  // namespace zerodiff::device
