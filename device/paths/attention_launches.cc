#include "device/paths/attention_launches.h"

#include <algorithm>
#include <string>
#include <utility>

#include "device/kernels/attention_contract.h"
#include "device/paths/attention_buffers.h"
#include "device/paths/call_buffers.h"

namespace zerodiff::device {
namespace {

constexpr std::int64_t kMaxGridY = 65535;

struct Stages {
  LaunchList& list;
  const LayerCall& call;
  const AttentionOptions& options;
  const AttentionBuffers& buffers;
  const AttentionScalars& scalars;
};

std::int64_t divide_up(std::int64_t count, std::int64_t step) {
  return (count + step - 1) / step;
}

std::uint32_t extent(std::int64_t count) {
  return static_cast<std::uint32_t>(count);
}

// Rows of tables and of attention: (token, kv head) pairs.
std::int64_t table_rows(const Stages& s) {
  return std::int64_t{s.scalars.num_rows} * s.scalars.num_kv_heads;
}

// How index_score divides rows: tokens of a request that are likely to sit side by side share a
// tile.
struct ScoreTile {
  std::int32_t tokens;
  std::int32_t heads;
  std::int32_t rows() const { return tokens * heads; }
};

ScoreTile score_tile(const LayerCall& call) {
  const LayerConfig& config = call.config;
  const std::int64_t heads = std::min<std::int64_t>(config.num_kv_heads, kMaxTileRows);
  const std::int64_t wanted =
      config.phase == Phase::decode ? config.decode_query_len : std::int64_t{kMaxTileRows};
  const std::int64_t tokens = std::clamp<std::int64_t>(wanted, 1, kMaxTileRows / heads);
  return {static_cast<std::int32_t>(tokens), static_cast<std::int32_t>(heads)};
}

// Blocks of one work-group of index_score. The unfused path has as many work-groups as blocks, the
// fused one a run of blocks for each, so that index_q is prepared once for all of them.
std::int64_t blocks_per_group(const Stages& s, PathKind kind, std::int64_t other_groups) {
  const std::int64_t columns = s.scalars.num_columns;
  const std::int64_t least = divide_up(columns, kMaxGridY);
  if (kind == PathKind::unfused) return least;
  return std::max(least, std::min<std::int64_t>(
                             16, divide_up(columns * other_groups, s.options.wanted_work_groups)));
}

void add_index_score(const Stages& s, PathKind kind) {
  if (s.scalars.num_columns == 0) return;
  const ScoreTile tile = score_tile(s.call);
  const std::int64_t token_tiles = divide_up(s.scalars.num_rows, tile.tokens);
  const std::int64_t head_tiles = divide_up(s.scalars.num_kv_heads, tile.heads);
  const std::int64_t blocks = blocks_per_group(s, kind, token_tiles * head_tiles);
  const std::string type = s.call.config.index_cache_dtype ? "_fp8" : row_suffix(s.call);
  Launch launch;
  launch.kernel = "index_score" + type + (tile.rows() <= 4 ? "_r4" : "_r16");
  launch.grid = {extent(token_tiles), extent(divide_up(s.scalars.num_columns, blocks)),
                 extent(head_tiles)};
  launch.block = {extent(kTileThreads)};
  launch.arguments = {s.buffers.index_q,
                      s.buffers.index_cache,
                      s.buffers.block_table,
                      s.buffers.query_start_loc,
                      s.buffers.positions,
                      s.buffers.num_tokens,
                      s.buffers.index_score,
                      s.scalars.num_rows,
                      s.scalars.num_requests,
                      s.scalars.num_columns,
                      s.scalars.num_kv_heads,
                      tile.tokens,
                      tile.heads,
                      static_cast<std::int32_t>(blocks),
                      s.scalars.index_format};
  s.list.add_launch(std::move(launch));
}

void add_index_topk(const Stages& s) {
  Launch launch;
  launch.kernel = "index_topk";
  launch.grid = {extent(table_rows(s))};
  launch.block = {extent(kTopkThreads)};
  launch.arguments = {s.buffers.index_score,  s.buffers.positions, s.buffers.num_tokens,
                      s.buffers.topk_index,   s.scalars.num_rows,  s.scalars.num_columns,
                      s.scalars.num_kv_heads, s.scalars.topk,      s.scalars.init_blocks,
                      s.scalars.local_blocks};
  s.list.add_launch(std::move(launch));
}

// What both kernels that build the table take after their first arguments.
void add_request_sources(const Stages& s, std::vector<Argument>& arguments) {
  arguments.insert(arguments.end(), {s.buffers.block_table, s.buffers.query_start_loc,
                                     s.buffers.positions, s.buffers.num_tokens});
}
void add_table(const Stages& s, std::vector<Argument>& arguments) {
  arguments.insert(
      arguments.end(),
      {s.buffers.sparse_block_table, s.buffers.sparse_context_lens, s.scalars.num_rows,
       s.scalars.num_requests, s.scalars.num_columns, s.scalars.num_kv_heads, s.scalars.topk});
}

void add_sparse_block_table(const Stages& s) {
  Launch launch;
  launch.kernel = "sparse_block_table";
  launch.grid = {extent(divide_up(table_rows(s) * s.scalars.topk, kTableThreads))};
  launch.block = {extent(kTableThreads)};
  launch.arguments = {s.buffers.topk_index};
  add_request_sources(s, launch.arguments);
  add_table(s, launch.arguments);
  launch.arguments.emplace_back(s.scalars.switches);
  s.list.add_launch(std::move(launch));
}

void add_fused_topk(const Stages& s) {
  Launch launch;
  launch.kernel = "fused_topk";
  launch.grid = {extent(table_rows(s))};
  launch.block = {extent(kTopkThreads)};
  launch.arguments = {s.buffers.index_score};
  add_request_sources(s, launch.arguments);
  launch.arguments.emplace_back(s.buffers.topk_index);
  add_table(s, launch.arguments);
  launch.arguments.insert(launch.arguments.end(),
                          {s.scalars.init_blocks, s.scalars.local_blocks, s.scalars.switches});
  s.list.add_launch(std::move(launch));
}

// Query heads of a work-group, as the kernels of attention are made for.
std::int64_t tile_heads(const AttentionScalars& scalars) {
  return scalars.group <= 4 ? 4 : scalars.group <= 8 ? 8 : kMaxTileRows;
}

std::string attention_kernel(const std::string& stem, const Stages& s) {
  return stem + row_suffix(s.call) + kv_suffix(s.call) + "_h" +
         std::to_string(tile_heads(s.scalars));
}

// The arguments that both attention kernels begin with, and those that they end with.
std::vector<Argument> attention_sources(const Stages& s) {
  return {s.buffers.q,
          s.buffers.k_cache,
          s.buffers.v_cache,
          s.buffers.k_scale,
          s.buffers.v_scale,
          s.buffers.sparse_block_table,
          s.buffers.sparse_context_lens,
          s.buffers.num_tokens};
}
void add_attention_scalars(const Stages& s, std::vector<Argument>& arguments) {
  arguments.insert(arguments.end(),
                   {s.scalars.group, s.scalars.num_kv_heads, s.scalars.topk, s.scalars.scale_stride,
                    s.scalars.scale, s.scalars.kv_format, s.scalars.switches});
}

// Of the unfused path: what is known of each block of a row.
struct Partials {
  Argument out;
  Argument max;
  Argument sum;
  std::int64_t rows;  // that there is place for
};

Partials add_partials(const Stages& s) {
  const std::int64_t heads = std::int64_t{s.scalars.topk} * s.scalars.group;
  const std::int64_t row_bytes = heads * (kHeadDim + 2) * 4;
  Partials partials;
  partials.rows = std::clamp<std::int64_t>(s.options.scratch_bytes / row_bytes, 1, table_rows(s));
  const std::int64_t count = partials.rows * heads;
  partials.out =
      BufferArgument{s.list.add_scratch("partial_out", ElementType::float32, count * kHeadDim)};
  partials.max = BufferArgument{s.list.add_scratch("partial_max", ElementType::float32, count)};
  partials.sum = BufferArgument{s.list.add_scratch("partial_sum", ElementType::float32, count)};
  return partials;
}

// How many work-groups share the blocks of a row.
std::int64_t split_count(const Stages& s, std::int64_t other_groups) {
  if (s.options.splits > 0) return std::min(s.options.splits, kMaxGridY);
  return std::clamp<std::int64_t>(divide_up(s.options.wanted_work_groups, other_groups), 1,
                                  std::min<std::int64_t>(s.scalars.topk, kMaxGridY));
}

Launch split_attention(const Stages& s, const Partials& partials, std::int64_t first_row,
                       std::int64_t rows) {
  const std::int64_t groups = rows * divide_up(s.scalars.group, tile_heads(s.scalars));
  Launch launch;
  launch.kernel = attention_kernel("sparse_attention", s);
  launch.grid = {extent(groups), extent(split_count(s, groups))};
  launch.block = {extent(kTileThreads)};
  launch.arguments = attention_sources(s);
  launch.arguments.insert(launch.arguments.end(),
                          {partials.out, partials.max, partials.sum, first_row});
  add_attention_scalars(s, launch.arguments);
  return launch;
}

Launch attention_merge(const Stages& s, const Partials& partials, std::int64_t first_row,
                       std::int64_t rows) {
  Launch launch;
  launch.kernel = "attention_merge" + row_suffix(s.call);
  launch.grid = {extent(rows), extent(divide_up(s.scalars.group, kMergeHeads))};
  launch.block = {extent(kMergeThreads)};
  launch.arguments = {
      partials.out,           partials.max,          partials.sum, s.buffers.sparse_context_lens,
      s.buffers.num_tokens,   s.buffers.attn_output, first_row,    s.scalars.group,
      s.scalars.num_kv_heads, s.scalars.topk};
  return launch;
}

void add_unfused_attention(const Stages& s) {
  const Partials partials = add_partials(s);
  for (std::int64_t first = 0; first < table_rows(s); first += partials.rows) {
    const std::int64_t rows = std::min(partials.rows, table_rows(s) - first);
    s.list.add_launch(split_attention(s, partials, first, rows));
    s.list.add_launch(attention_merge(s, partials, first, rows));
  }
}

void add_fused_attention(const Stages& s) {
  const std::int64_t heads = tile_heads(s.scalars);
  const std::int64_t items = table_rows(s) * divide_up(s.scalars.group, heads);
  const std::int64_t group_heads = s.scalars.topk * heads;
  const std::int64_t group_bytes = group_heads * (kWeightWords * 8 + 8);
  const std::int64_t groups =
      std::clamp<std::int64_t>(s.options.scratch_bytes / group_bytes, 1, items);
  const std::int64_t count = groups * group_heads;
  Launch launch;
  launch.kernel = attention_kernel("fused_attention", s);
  launch.grid = {extent(groups)};
  launch.block = {extent(kTileThreads)};
  launch.arguments = attention_sources(s);
  launch.arguments.insert(
      launch.arguments.end(),
      {BufferArgument{s.list.add_scratch("weights", ElementType::int64, count * kWeightWords)},
       BufferArgument{s.list.add_scratch("block_max", ElementType::float32, count)},
       BufferArgument{s.list.add_scratch("block_sum", ElementType::float32, count)},
       s.buffers.attn_output});
  add_attention_scalars(s, launch.arguments);
  s.list.add_launch(std::move(launch));
}

}  // namespace

void append_attention(PathLaunches& launches, const LayerCall& call, PathKind kind,
                      const AttentionOptions& options) {
  if (!has_selection(call)) return;
  const AttentionBuffers buffers = add_attention_buffers(launches, call, options);
  const AttentionScalars scalars = attention_scalars_of(call);
  if (scalars.num_rows == 0) return;
  const Stages s{launches.list, call, options, buffers, scalars};
  const bool selects = runs(call, options, AttentionStage::index_topk);
  const bool builds_table = runs(options, AttentionStage::sparse_block_table);
  const bool fused_topk = kind == PathKind::fused && selects && builds_table;
  if (runs(call, options, AttentionStage::index_score)) add_index_score(s, kind);
  if (fused_topk) add_fused_topk(s);
  if (selects && !fused_topk) add_index_topk(s);
  if (builds_table && !fused_topk) add_sparse_block_table(s);
  if (!runs(options, AttentionStage::sparse_attention)) return;
  if (kind == PathKind::fused) {
    add_fused_attention(s);
  } else {
    add_unfused_attention(s);
  }
}

}  // namespace zerodiff::device
