#include "reference/layer.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "reference/index_cache_insert.h"
#include "reference/index_score.h"
#include "reference/index_topk.h"
#include "reference/materialise.h"
#include "reference/parallel.h"
#include "reference/qk_norm_rope.h"
#include "reference/reshape_and_cache.h"
#include "reference/slot_mapping.h"
#include "reference/sparse_attention.h"
#include "reference/sparse_block_table.h"

namespace zerodiff::reference {
namespace {

// Storage that is already there is used again: its pages are warm.
void prepare(Tensor& tensor, ElementType type, const Shape& shape) {
  if (tensor.present() && tensor.type() == type && tensor.shape() == shape) return;
  tensor = Tensor::allocate(type, shape);
}

void prepare_copy(Tensor& tensor, const Tensor& source, int threads) {
  constexpr std::size_t kPart = std::size_t{1} << 18;  // less is not worth a thread
  prepare(tensor, source.type(), source.shape());
  std::byte* const to = tensor.bytes().data();
  const std::span<const std::byte> from = source.bytes();
  const auto parts = static_cast<std::int64_t>((from.size() + kPart - 1) / kPart);
  parallel_for(parts, threads, [&](std::int64_t begin, std::int64_t end) {
    const std::size_t first = static_cast<std::size_t>(begin) * kPart;
    const std::size_t last = std::min(static_cast<std::size_t>(end) * kPart, from.size());
    std::memcpy(to + first, from.data() + first, last - first);
  });
}

void prepare_outputs(const LayerCall& call, Outputs& outputs, int threads) {
  const LayerConfig& config = call.config;
  const std::int64_t rows = call.capacity();
  prepare(outputs.q, call.model_dtype(), {rows, config.num_heads * kHeadDim});
  if (config.kv_storage == KvStorage::separate) {
    prepare_copy(outputs.k_cache, call.k_cache, threads);
    prepare_copy(outputs.v_cache, call.v_cache, threads);
  } else {
    prepare_copy(outputs.kv_cache, call.kv_cache, threads);
  }
  if (config.skip_index_branch) return;
  prepare(outputs.index_q, call.index_cache_type(), {rows, config.num_index_heads * kHeadDim});
  prepare_copy(outputs.index_cache, call.index_cache, threads);
}

}  // namespace

void run_insertion(const LayerCall& call, Outputs& outputs, const Choices& choices, int threads) {
  const SlotMapping slots = map_slots(call);
  prepare_outputs(call, outputs, threads);
  const bool joined = call.config.kv_storage == KvStorage::block_contiguous;
  const QkNormRope stage(call, choices);
  const QRows q_rows(call, choices, stage);
  const ReshapeAndCache caches(call, choices, joined ? outputs.kv_cache : outputs.k_cache,
                               joined ? outputs.kv_cache : outputs.v_cache);
  parallel_for(call.capacity(), threads, [&](std::int64_t begin, std::int64_t end) {
    RotatedRow row;
    for (std::int64_t t = begin; t < end; ++t) {
      const auto i = static_cast<std::size_t>(t);
      if (t + 1 < end) q_rows.prefetch(t + 1);
      q_rows.materialise(t, row.q, outputs.q);
      stage.rotate_row_without_q(t, row);
      caches.store(slots.kv[i], row);
      if (call.config.skip_index_branch) continue;
      materialise_index_q(call, choices, row, t, outputs.index_q);
      insert_index_k(call, choices, slots.index[i], row, outputs.index_cache);
    }
  });
}

Outputs run_insertion(const LayerCall& call, const Choices& choices, int threads) {
  Outputs outputs;
  run_insertion(call, outputs, choices, threads);
  return outputs;
}

bool has_selection(const LayerCall& call) {
  if (!call.has_attention_metadata()) return false;
  return !call.config.skip_index_branch || call.topk_index.present();
}

void run_after_insertion(const LayerCall& call, Outputs& outputs, const LayerOptions& options) {
  if (!has_selection(call)) return;
  if (!call.config.skip_index_branch) {
    Tensor scores = index_score(call, outputs.index_q, outputs.index_cache, options.threads);
    outputs.topk_index = index_topk(call, scores);
    if (options.keep_index_score) outputs.index_score = std::move(scores);
  }
  const Tensor& selection = call.config.skip_index_branch ? call.topk_index : outputs.topk_index;
  SparseBlockTable table = sparse_block_table(call, selection);
  const bool joined = call.config.kv_storage == KvStorage::block_contiguous;
  outputs.attn_output =
      sparse_attention(call, outputs.q, joined ? outputs.kv_cache : outputs.k_cache,
                       joined ? outputs.kv_cache : outputs.v_cache, table, options.threads);
  outputs.sparse_block_table = std::move(table.table);
  outputs.sparse_context_lens = std::move(table.context_lens);
}

Outputs run_layer(const LayerCall& call, const Choices& choices, const LayerOptions& options) {
  Outputs outputs = run_insertion(call, choices, options.threads);
  run_after_insertion(call, outputs, options);
  return outputs;
}

}  // namespace zerodiff::reference
