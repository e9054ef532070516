#include "device/paths/call_buffers.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "device/kernels/contract.h"
#include "fixtures/error.h"

namespace zerodiff::device {
namespace {

Argument argument(BufferId buffer, std::int64_t byte_offset = 0) {
  return BufferArgument{buffer, byte_offset};
}

Argument input_or_null(LaunchList& list, std::string name, const Tensor& tensor) {
  if (!tensor.present()) return NullArgument{};
  return argument(list.add_input(std::move(name), tensor));
}

BufferId add_cache(PathLaunches& launches, Tensor Outputs::*field, std::string name,
                   const Tensor& cache, const PathOptions& options) {
  BufferDescription description{.name = std::move(name),
                                .type = cache.type(),
                                .count = cache.size(),
                                .role = BufferRole::inout};
  if (options.cache_fill) {
    description.initial = {.kind = InitialContent::Kind::fill, .fill = *options.cache_fill};
  } else {
    description.initial = {.kind = InitialContent::Kind::bytes, .bytes = cache.bytes()};
  }
  const BufferId buffer = launches.list.add_buffer(std::move(description));
  launches.results.push_back({field, buffer, cache.shape()});
  return buffer;
}

Argument add_rows_result(PathLaunches& launches, Tensor Outputs::*field, std::string name,
                         ElementType type, const Shape& shape, const PathOptions& options) {
  const BufferId buffer = launches.list.add_buffer(
      {.name = std::move(name),
       .type = type,
       .count = shape[0] * shape[1],
       .role = BufferRole::output,
       .initial = {.kind = InitialContent::Kind::unwritten, .fill = options.output_fill}});
  launches.results.push_back({field, buffer, shape});
  return argument(buffer);
}

void add_kv_caches(PathLaunches& launches, const LayerCall& call, const PathOptions& options,
                   CallBuffers& buffers) {
  if (call.config.kv_storage == KvStorage::separate) {
    buffers.k_cache =
        argument(add_cache(launches, &Outputs::k_cache, "k_cache", call.k_cache, options));
    buffers.v_cache =
        argument(add_cache(launches, &Outputs::v_cache, "v_cache", call.v_cache, options));
    return;
  }
  // A block's V pages stand behind its K pages; V is the same page id in a view that starts there.
  const BufferId pool = add_cache(launches, &Outputs::kv_cache, "kv_cache", call.kv_cache, options);
  const std::int64_t k_pages = kPagesPerBlock * call.config.num_kv_heads * kPageSize * kHeadDim;
  const auto size = static_cast<std::int64_t>(element_size(call.kv_cache_type()));
  buffers.k_cache = argument(pool);
  buffers.v_cache = argument(pool, k_pages * size);
}

void add_index_tensors(PathLaunches& launches, const LayerCall& call, const PathOptions& options,
                       CallBuffers& buffers) {
  LaunchList& list = launches.list;
  buffers.index_q_norm_weight =
      argument(list.add_input("index_q_norm_weight", call.index_q_norm_weight));
  buffers.index_k_norm_weight =
      argument(list.add_input("index_k_norm_weight", call.index_k_norm_weight));
  buffers.index_slot_mapping =
      argument(list.add_input("index_slot_mapping", call.index_slot_mapping));
  buffers.index_cache = argument(
      add_cache(launches, &Outputs::index_cache, "index_cache", call.index_cache, options));
}

Tensor scalar_tensor(std::int64_t value) {
  Tensor tensor = Tensor::allocate(ElementType::int32, {1});
  tensor.as<std::int32_t>()[0] = static_cast<std::int32_t>(value);
  return tensor;
}

std::int32_t format_code(std::optional<ElementType> cache_dtype) {
  switch (cache_dtype.value_or(ElementType::float8_e4m3fn)) {
    case ElementType::float8_e4m3fnuz:
      return kE4m3fnuz;
    case ElementType::float8_e5m2:
      return kE5m2;
    case ElementType::float8_e5m2fnuz:
      return kE5m2fnuz;
    default:
      return kE4m3fn;
  }
}

std::uint32_t switches_of(const LayerCall& call) {
  const LayerConfig& config = call.config;
  const auto bit = [](bool set, std::uint32_t value) { return set ? value : 0U; };
  return bit(config.scale_op == ScaleOp::divide, kDivideByScale) |
         bit(config.quantize_from == QuantizeFrom::fp32, kQuantizeFromFp32) |
         bit(config.index_q_from == IndexQFrom::model_dtype, kIndexQFromModelDtype) |
         bit(config.overflow == Overflow::nan, kOverflowToNan) |
         bit(config.overflow == Overflow::inf, kOverflowToInfinity) |
         bit(config.kv_storage == KvStorage::block_contiguous, kBlockContiguous) |
         bit(kv_slots_are_rebased(call), kRebasedSlots) |
         bit(config.skip_index_branch, kSkipIndexBranch);
}

std::int32_t row_count(const LayerCall& call) {
  const std::int64_t rows = call.capacity();
  const std::int64_t most = std::numeric_limits<std::int32_t>::max() - kRowsPerBlock;
  if (rows > most) {
    throw Error::input("/inputs/qkv", "rows of one launch", std::to_string(rows),
                       "at most " + std::to_string(most));
  }
  return static_cast<std::int32_t>(rows);
}

}  // namespace

bool kv_slots_are_rebased(const LayerCall& call) {
  return call.config.batch_mode == BatchMode::graph &&
         call.config.kv_storage == KvStorage::block_contiguous &&
         call.page16_slot_mapping.present() && call.page16_slot_mapping.size() == call.capacity();
}

CallBuffers add_call_buffers(PathLaunches& launches, const LayerCall& call,
                             const PathOptions& options) {
  LaunchList& list = launches.list;
  const bool fp8 = call.config.kv_cache_dtype.has_value();
  CallBuffers buffers;
  buffers.q_norm_weight = argument(list.add_input("q_norm_weight", call.q_norm_weight));
  buffers.k_norm_weight = argument(list.add_input("k_norm_weight", call.k_norm_weight));
  buffers.cos_sin_cache = argument(list.add_input("cos_sin_cache", call.cos_sin_cache));
  buffers.cos_sin_rows = input_or_null(list, "cos_sin_rows", call.cos_sin_rows);
  buffers.positions = argument(list.add_input("positions", call.positions));
  buffers.slot_mapping = argument(
      kv_slots_are_rebased(call) ? list.add_input("page16_slot_mapping", call.page16_slot_mapping)
                                 : list.add_input("slot_mapping", call.slot_mapping));
  buffers.num_tokens =
      argument(list.add_input("num_tokens", scalar_tensor(call.config.num_tokens)));
  buffers.k_scale = fp8 ? input_or_null(list, "k_scale", call.k_scale) : NullArgument{};
  buffers.v_scale = fp8 ? input_or_null(list, "v_scale", call.v_scale) : NullArgument{};
  buffers.q = add_rows_result(launches, &Outputs::q, "q", call.model_dtype(),
                              {call.capacity(), call.config.num_heads * kHeadDim}, options);
  const bool index_branch = !call.config.skip_index_branch;
  buffers.index_q =
      index_branch
          ? add_rows_result(launches, &Outputs::index_q, "index_q", call.index_cache_type(),
                            {call.capacity(), call.config.num_index_heads * kHeadDim}, options)
          : NullArgument{};
  add_kv_caches(launches, call, options, buffers);
  buffers.index_q_norm_weight = buffers.index_k_norm_weight = NullArgument{};
  buffers.index_slot_mapping = buffers.index_cache = NullArgument{};
  if (index_branch) add_index_tensors(launches, call, options, buffers);
  return buffers;
}

CallScalars scalars_of(const LayerCall& call) {
  const LayerConfig& config = call.config;
  const bool head_slot = config.scale_granularity == ScaleGranularity::head_slot;
  CallScalars scalars{};
  scalars.num_rows = row_count(call);
  scalars.num_heads = static_cast<std::int32_t>(config.num_heads);
  scalars.num_kv_heads = static_cast<std::int32_t>(config.num_kv_heads);
  scalars.num_index_heads = static_cast<std::int32_t>(config.num_index_heads);
  scalars.rotary_dim = static_cast<std::int32_t>(config.rotary_dim);
  scalars.num_table_rows = call.cos_sin_cache.dim(0);
  scalars.eps = config.rms_norm_eps;
  scalars.scale_stride = head_slot && config.kv_cache_dtype ? call.num_slots() : 0;
  scalars.kv_format = format_code(config.kv_cache_dtype);
  scalars.index_format = format_code(config.index_cache_dtype);
  scalars.switches = switches_of(call);
  return scalars;
}

std::string row_suffix(const LayerCall& call) {
  return call.model_dtype() == ElementType::bfloat16 ? "_bf16" : "_fp16";
}

std::string kv_suffix(const LayerCall& call) {
  return call.config.kv_cache_dtype ? "_fp8" : "_auto";
}

std::string index_suffix(const LayerCall& call) {
  // Without an index branch there is no buffer that could have the other type.
  return call.config.index_cache_dtype && !call.config.skip_index_branch ? "_fp8" : "_auto";
}

std::int64_t num_index_branch_heads(const LayerCall& call) {
  return call.config.skip_index_branch ? 0 : call.config.num_index_heads + 1;
}

Launch tile_launch(std::string kernel, const LayerCall& call, std::int64_t heads,
                   const PathOptions& options) {
  const std::int64_t tiles = (call.capacity() + kRowsPerBlock - 1) / kRowsPerBlock;
  const std::int64_t wanted = (options.wanted_work_groups + tiles - 1) / tiles;
  // The y axis of a grid ends at 65,535.
  const std::int64_t parts =
      std::clamp<std::int64_t>(wanted, 1, std::min<std::int64_t>(heads, 65535));
  Launch launch;
  launch.kernel = std::move(kernel);
  launch.grid = {static_cast<std::uint32_t>(tiles), static_cast<std::uint32_t>(parts)};
  launch.block = {kThreadsPerBlock};
  return launch;
}

}  // namespace zerodiff::device
