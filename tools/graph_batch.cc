#include "tools/graph_batch.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "fixtures/error.h"
#include "fixtures/layer_call_checks.h"
#include "reference/cache_layout.h"

namespace zerodiff::tools {
namespace {

using Index = std::int64_t;
using Random = std::mt19937_64;

// The first rows of a [T, ...] tensor.
Tensor first_rows(const Tensor& tensor, Index rows) {
  if (!tensor.present()) return {};
  Shape shape = tensor.shape();
  shape[0] = rows;
  Tensor result = Tensor::allocate(tensor.type(), std::move(shape));
  std::ranges::copy(tensor.bytes().first(result.size_bytes()), result.bytes().begin());
  return result;
}

// [nkv, num_tokens, topk] with the first `live` tokens.
Tensor live_selection(const LayerCall& call, Index live) {
  if (!call.topk_index.present()) return {};
  Tensor selection =
      Tensor::allocate(ElementType::int32, {call.config.num_kv_heads, live, call.config.topk});
  if (live == 0) return selection;
  const auto from = call.topk_index.as<std::int32_t>();
  const auto to = selection.as<std::int32_t>();
  const auto pitch = static_cast<std::size_t>(call.config.num_tokens * call.config.topk);
  const auto width = static_cast<std::size_t>(live * call.config.topk);
  for (std::size_t head = 0; head * width < to.size(); ++head) {
    std::ranges::copy(from.subspan(head * pitch, width), to.subspan(head * width).begin());
  }
  return selection;
}

void drop_slots(Tensor& slots, Index live) {
  if (!slots.present()) return;
  std::ranges::fill(slots.as<Index>().subspan(static_cast<std::size_t>(live)), -1);
}

// Rows of requests, and with them lengths, end at the live rows.
void drop_request_rows(LayerCall& batch, Index live) {
  if (!batch.query_start_loc.present()) return;
  const auto start = batch.query_start_loc.as<std::int32_t>();
  const std::vector<std::int32_t> before(start.begin(), start.end());
  for (std::int32_t& row : start) row = std::min(row, static_cast<std::int32_t>(live));
  if (!batch.seq_lens.present()) return;
  const auto lengths = batch.seq_lens.as<std::int32_t>();
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    lengths[r] -= (before[r + 1] - before[r]) - (start[r + 1] - start[r]);
  }
}

Tensor rebased(Tensor slots) {
  for (Index& slot : slots.as<Index>()) slot = reference::rebase_slot(slot);
  return slots;
}

class ChangedCall {
 public:
  ChangedCall(const LayerCall& call, std::uint64_t seed)
      : original_(call), call_(call), random_(seed) {}

  LayerCall make() {
    change_activations();
    change_scales();
    exchange_blocks();
    LayerCall moved = call_;
    move_positions(moved);
    // Requests that share blocks may now store to one slot.
    return is_valid(moved) ? std::move(moved) : std::move(call_);
  }

 private:
  Index pick(Index first, Index last) {
    return std::uniform_int_distribution<Index>(first, last)(random_);
  }

  static bool is_valid(const LayerCall& call) {
    try {
      check_layer_call(call);
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  // Elements of other rows, some with the other sign: the distribution stays.
  void change_activations() {
    const auto from = original_.qkv.as<std::uint16_t>();
    const auto to = call_.qkv.as<std::uint16_t>();
    if (from.empty()) return;
    const std::size_t shift = random_() % from.size();
    for (std::size_t i = 0; i < to.size(); ++i) {
      const std::uint64_t mix = (i + 1) * 0x9E3779B97F4A7C15ULL ^ shift;
      to[i] = static_cast<std::uint16_t>(from[(i + shift) % from.size()] ^ (mix >> 63U << 15U));
    }
  }

  void change_scales() {
    for (Tensor* scales : {&call_.k_scale, &call_.v_scale}) {
      const float factor = 0.25F * static_cast<float>(pick(1, 12));
      if (!scales->present()) continue;
      for (float& scale : scales->as<float>()) scale *= factor;
    }
  }

  void exchange_blocks() {
    std::vector<Index> blocks(static_cast<std::size_t>(call_.num_blocks()));
    std::iota(blocks.begin(), blocks.end(), 0);
    std::ranges::shuffle(blocks, random_);
    for (Tensor* slots : {&call_.slot_mapping, &call_.index_slot_mapping}) {
      if (!slots->present()) continue;
      for (Index& slot : slots->as<Index>()) {
        if (slot < 0) continue;
        const auto block = static_cast<std::size_t>(slot / kBlockSize);
        slot = blocks[block] * kBlockSize + slot % kBlockSize;
      }
    }
    if (!call_.block_table.present()) return;
    for (std::int32_t& entry : call_.block_table.as<std::int32_t>()) {
      if (entry < 0 || entry >= call_.num_blocks()) continue;
      entry = static_cast<std::int32_t>(blocks[static_cast<std::size_t>(entry)]);
    }
  }

  bool has_rope_row(Index position) const {
    if (!call_.cos_sin_rows.present()) return position < call_.cos_sin_cache.dim(0);
    const auto rows = call_.cos_sin_rows.as<Index>();
    return std::binary_search(rows.begin(), rows.end(), position);
  }

  // By how much the request's rows can move towards 0.
  Index choose_step(std::span<const Index> positions) {
    Index most = -1;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      if (positions[i] < 0) continue;
      most = positions[i] - static_cast<Index>(i);  // the context
      break;
    }
    for (int attempt = 0; attempt < 8 && most > 0; ++attempt) {
      const Index step = pick(1, most);
      if (std::ranges::all_of(positions,
                              [&](Index p) { return p < 0 || has_rope_row(p - step); })) {
        return step;
      }
    }
    return 0;
  }

  void move_positions(LayerCall& moved) {
    if (!moved.block_table.present() || !moved.query_start_loc.present()) return;
    const auto start = moved.query_start_loc.as<std::int32_t>();
    for (std::size_t r = 0; r + 1 < start.size(); ++r) {
      const Index step = choose_step(moved.positions.as<Index>().subspan(
          static_cast<std::size_t>(start[r]), static_cast<std::size_t>(start[r + 1] - start[r])));
      if (step > 0) move_request(moved, r, step);
    }
  }

  static void move_request(LayerCall& moved, std::size_t r, Index step) {
    const auto start = moved.query_start_loc.as<std::int32_t>();
    for (Index t = start[r]; t < start[r + 1]; ++t) move_row(moved, r, t, step);
    for (Tensor* lengths : {&moved.seq_lens, &moved.context_lens}) {
      if (!lengths->present()) continue;
      lengths->as<std::int32_t>()[r] -= static_cast<std::int32_t>(step);
    }
  }

  static void move_row(LayerCall& moved, std::size_t r, Index row, Index step) {
    Index& position = moved.positions.as<Index>()[static_cast<std::size_t>(row)];
    if (position < 0) return;
    const auto table = moved.block_table.as<std::int32_t>().subspan(
        r * static_cast<std::size_t>(moved.block_table.dim(1)));
    const auto slot_of = [&](Index p) {
      return table[static_cast<std::size_t>(p / kBlockSize)] * kBlockSize + p % kBlockSize;
    };
    const Index before = slot_of(position);
    position -= step;
    for (Tensor* slots : {&moved.slot_mapping, &moved.index_slot_mapping}) {
      if (!slots->present()) continue;
      Index& slot = slots->as<Index>()[static_cast<std::size_t>(row)];
      if (slot == before) slot = slot_of(position);
    }
    drop_unseen_blocks(moved, row, position);
  }

  static void drop_unseen_blocks(LayerCall& moved, Index row, Index position) {
    if (!moved.topk_index.present()) return;
    const auto blocks = moved.topk_index.as<std::int32_t>();
    const Index topk = moved.config.topk;
    for (Index head = 0; head < moved.config.num_kv_heads; ++head) {
      const Index first = (head * moved.config.num_tokens + row) * topk;
      for (std::int32_t& block :
           blocks.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(topk))) {
        if (block > position / kBlockSize) block = -1;
      }
    }
  }

  const LayerCall& original_;
  LayerCall call_;
  Random random_;
};

}  // namespace

LayerCall graph_batch(const LayerCall& call, std::int64_t live) {
  LayerCall batch = call;
  batch.config.batch_mode = BatchMode::graph;
  batch.topk_index = live_selection(call, live);
  batch.config.num_tokens = live;
  drop_slots(batch.slot_mapping, live);
  drop_slots(batch.index_slot_mapping, live);
  drop_request_rows(batch, live);
  batch.page16_slot_mapping = {};
  if (call.config.kv_storage == KvStorage::block_contiguous) {
    batch.page16_slot_mapping = rebased(batch.slot_mapping);
  }
  return batch;
}

LayerCall eager_batch(const LayerCall& batch) {
  const std::int64_t live = batch.config.num_tokens;
  LayerCall eager = batch;
  eager.config.batch_mode = BatchMode::eager;
  eager.qkv = first_rows(batch.qkv, live);
  eager.positions = first_rows(batch.positions, live);
  eager.slot_mapping = first_rows(batch.slot_mapping, live);
  eager.index_slot_mapping = first_rows(batch.index_slot_mapping, live);
  eager.page16_slot_mapping = {};
  return eager;
}

LayerCall changed_call(const LayerCall& call, std::uint64_t seed) {
  return ChangedCall(call, seed).make();
}

}  // namespace zerodiff::tools
