#include "device/paths/attention_buffers.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "device/kernels/attention_contract.h"
#include "device/paths/call_buffers.h"
#include "fixtures/error.h"

namespace zerodiff::device {
namespace {

std::optional<BufferId> buffer_named(const LaunchList& list, std::string_view name) {
  const auto& buffers = list.buffers();
  const auto found = std::find_if(buffers.begin(), buffers.end(),
                                  [&](const BufferDescription& b) { return b.name == name; });
  if (found == buffers.end()) return std::nullopt;
  return BufferId{static_cast<std::uint32_t>(found - buffers.begin())};
}

Argument found_or_null(const LaunchList& list, std::string_view name,
                       std::int64_t byte_offset = 0) {
  const std::optional<BufferId> buffer = buffer_named(list, name);
  return buffer ? Argument(BufferArgument{*buffer, byte_offset}) : NullArgument{};
}

Argument found_or_added(LaunchList& list, std::string_view name, const Tensor& tensor) {
  if (const auto buffer = buffer_named(list, name)) return BufferArgument{*buffer};
  return BufferArgument{list.add_input(std::string(name), tensor)};
}

void find_caches(const LaunchList& list, const LayerCall& call, AttentionBuffers& buffers) {
  buffers.index_cache = found_or_null(list, "index_cache");
  if (call.config.kv_storage == KvStorage::separate) {
    buffers.k_cache = found_or_null(list, "k_cache");
    buffers.v_cache = found_or_null(list, "v_cache");
    return;
  }
  const std::int64_t k_elements = kPagesPerBlock * call.config.num_kv_heads * kPageSize * kHeadDim;
  const auto size = static_cast<std::int64_t>(element_size(call.kv_cache_type()));
  buffers.k_cache = found_or_null(list, "kv_cache");
  buffers.v_cache = found_or_null(list, "kv_cache", k_elements * size);
}

// A tensor of Outputs: where it is, how many elements its buffer has, and the shape of the result,
// which is the front of each of `slices` equal parts of the buffer.
struct ResultBuffer {
  std::string name;
  Tensor Outputs::*field;
  ElementType type;
  std::int64_t count;
  Shape shape;
  std::int64_t slices = 1;
};

Argument add_result(PathLaunches& launches, const ResultBuffer& result, std::byte fill) {
  const BufferId buffer = launches.list.add_buffer(
      {.name = result.name,
       .type = result.type,
       .count = result.count,
       .role = BufferRole::output,
       .initial = {.kind = InitialContent::Kind::unwritten, .fill = fill}});
  launches.results.push_back({result.field, buffer, result.shape, result.slices});
  return BufferArgument{buffer};
}

void add_selection(PathLaunches& launches, const LayerCall& call, const AttentionOptions& options,
                   AttentionBuffers& buffers) {
  const LayerConfig& c = call.config;
  const Shape shape{c.num_kv_heads, c.num_tokens, c.topk};
  const std::int64_t count = c.num_kv_heads * call.capacity() * c.topk;
  if (runs(call, options, AttentionStage::index_topk)) {
    buffers.topk_index = add_result(
        launches,
        {"topk_index", &Outputs::topk_index, ElementType::int32, count, shape, c.num_kv_heads},
        options.output_fill);
  } else if (c.skip_index_branch && runs(options, AttentionStage::sparse_block_table)) {
    const BufferId buffer = launches.list.add_input(
        "topk_index", with_capacity(call.topk_index, c.num_kv_heads, call.capacity()));
    buffers.topk_index = BufferArgument{buffer};
  }
}

void add_table(PathLaunches& launches, const LayerCall& call, const AttentionOptions& options,
               AttentionBuffers& buffers) {
  if (!runs(options, AttentionStage::sparse_block_table)) return;
  const LayerConfig& c = call.config;
  const std::int64_t rows = call.capacity() * c.num_kv_heads;
  const std::int64_t live = c.num_tokens * c.num_kv_heads;
  const std::int64_t width = c.topk * kPagesPerBlock;
  buffers.sparse_block_table = add_result(launches,
                                          {"sparse_block_table", &Outputs::sparse_block_table,
                                           ElementType::int32, rows * width, Shape{live, width}},
                                          options.output_fill);
  buffers.sparse_context_lens = add_result(
      launches,
      {"sparse_context_lens", &Outputs::sparse_context_lens, ElementType::int32, rows, Shape{live}},
      options.output_fill);
}

void add_attention(PathLaunches& launches, const LayerCall& call, const AttentionOptions& options,
                   AttentionBuffers& buffers) {
  if (!runs(options, AttentionStage::sparse_attention)) return;
  const LayerConfig& c = call.config;
  buffers.attn_output = add_result(
      launches,
      {"attn_output", &Outputs::attn_output, call.model_dtype(),
       call.capacity() * c.num_heads * kHeadDim, Shape{c.num_tokens, c.num_heads, kHeadDim}},
      options.output_fill);
}

void add_scores(PathLaunches& launches, const LayerCall& call, const AttentionOptions& options,
                AttentionBuffers& buffers) {
  if (!runs(call, options, AttentionStage::index_score)) return;
  const LayerConfig& c = call.config;
  const std::int64_t columns = call.block_table.dim(1);
  const std::int64_t count = c.num_kv_heads * call.capacity() * columns;
  if (!options.keep_index_score) {
    buffers.index_score =
        BufferArgument{launches.list.add_scratch("index_score", ElementType::float32, count)};
    return;
  }
  buffers.index_score =
      add_result(launches,
                 {"index_score", &Outputs::index_score, ElementType::float32, count,
                  Shape{c.num_kv_heads, c.num_tokens, columns}, c.num_kv_heads},
                 options.output_fill);
}

std::int32_t clamped(std::int64_t value) {
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(value, std::numeric_limits<std::int32_t>::max()));
}

}  // namespace

std::string_view name_of(AttentionStage stage) {
  switch (stage) {
    case AttentionStage::index_score:
      return "index_score";
    case AttentionStage::index_topk:
      return "index_topk";
    case AttentionStage::sparse_block_table:
      return "sparse_block_table";
    case AttentionStage::sparse_attention:
      return "sparse_attention";
  }
  return "unknown";
}

bool has_selection(const LayerCall& call) {
  return call.has_attention_metadata() &&
         (!call.config.skip_index_branch || call.topk_index.present());
}

bool runs(const AttentionOptions& options, AttentionStage stage) {
  return options.first_stage <= stage && stage <= options.last_stage;
}

bool runs(const LayerCall& call, const AttentionOptions& options, AttentionStage stage) {
  const bool own_selection =
      stage == AttentionStage::index_score || stage == AttentionStage::index_topk;
  return runs(options, stage) && !(own_selection && call.config.skip_index_branch);
}

AttentionBuffers add_attention_buffers(PathLaunches& launches, const LayerCall& call,
                                       const AttentionOptions& options) {
  LaunchList& list = launches.list;
  AttentionBuffers buffers;
  buffers.positions = found_or_added(list, "positions", call.positions);
  buffers.query_start_loc = found_or_added(list, "query_start_loc", call.query_start_loc);
  buffers.block_table = found_or_added(list, "block_table", call.block_table);
  buffers.num_tokens = found_or_null(list, "num_tokens");
  buffers.q = found_or_null(list, "q");
  buffers.index_q = found_or_null(list, "index_q");
  find_caches(list, call, buffers);
  buffers.k_scale = found_or_null(list, "k_scale");
  buffers.v_scale = found_or_null(list, "v_scale");
  // What a stage that does not run has left.
  buffers.index_score = found_or_null(list, "index_score");
  buffers.topk_index = found_or_null(list, "topk_index");
  buffers.sparse_block_table = found_or_null(list, "sparse_block_table");
  buffers.sparse_context_lens = found_or_null(list, "sparse_context_lens");
  buffers.attn_output = NullArgument{};
  add_selection(launches, call, options, buffers);
  add_table(launches, call, options, buffers);
  add_attention(launches, call, options, buffers);
  add_scores(launches, call, options, buffers);
  return buffers;
}

AttentionScalars attention_scalars_of(const LayerCall& call) {
  const LayerConfig& config = call.config;
  const CallScalars insertion = scalars_of(call);
  AttentionScalars scalars{};
  scalars.num_rows = insertion.num_rows;
  scalars.num_requests = clamped(call.block_table.dim(0));
  scalars.num_columns = clamped(call.block_table.dim(1));
  scalars.num_kv_heads = insertion.num_kv_heads;
  scalars.group = static_cast<std::int32_t>(config.num_heads / config.num_kv_heads);
  scalars.topk = clamped(config.topk);
  scalars.init_blocks = clamped(config.init_blocks);
  scalars.local_blocks = clamped(config.local_blocks);
  scalars.scale_stride = insertion.scale_stride;
  scalars.scale = config.sm_scale * 0x1.715476p+0F;
  scalars.kv_format = insertion.kv_format;
  scalars.index_format = insertion.index_format;
  scalars.switches = insertion.switches;
  return scalars;
}

Tensor with_capacity(const Tensor& tensor, std::int64_t outer, std::int64_t capacity) {
  Shape shape = tensor.shape();
  shape.at(1) = capacity;
  Tensor wide = Tensor::allocate(tensor.type(), std::move(shape));
  std::ranges::fill(wide.bytes(), std::byte{0xFF});
  if (outer == 0) return wide;
  const std::size_t from = tensor.size_bytes() / static_cast<std::size_t>(outer);
  const std::size_t to = wide.size_bytes() / static_cast<std::size_t>(outer);
  for (std::size_t i = 0; i < static_cast<std::size_t>(outer); ++i) {
    const auto part = tensor.bytes().subspan(i * from, from);
    std::ranges::copy(part, wide.bytes().subspan(i * to, to).begin());
  }
  return wide;
}

}  // namespace zerodiff::device
