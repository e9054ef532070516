// What must not change the results of the stages after insertion: the other rows of the batch, the
// place of blocks in the pool, the number of threads, and whatever no live token reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "reference/layer.h"
#include "tests/oracle/attention_difference.h"
#include "tests/reference/attention_calls.h"

namespace zerodiff::reference {
namespace {

using oracle::attention_difference;

constexpr LayerOptions kKeepAll{.threads = 1, .keep_index_score = true};

class AttentionInvariance : public testing::TestWithParam<std::uint64_t> {
 protected:
  GeneratorOptions options_ = test::random_attention_options(GetParam());
  LayerCall call_ = generate_call(options_);
  Outputs outputs_ = run_layer(call_, {}, kKeepAll);
};

INSTANTIATE_TEST_SUITE_P(Seed, AttentionInvariance,
                         testing::Range<std::uint64_t>(1, 1 + ZERODIFF_ATTENTION_INVARIANCE_CALLS));

TEST_P(AttentionInvariance, ThreadsDoNotMatter) {
  for (const int threads : {2, 3, 7}) {
    const Outputs other = run_layer(call_, {}, {.threads = threads, .keep_index_score = true});
    for (const OutputField& field : kOutputFields) {
      EXPECT_TRUE(identical(outputs_.*field.tensor, other.*field.tensor))
          << field.name << ", " << threads << " threads, " << describe(options_);
    }
  }
}

// Part `first`..`first + count` of an axis.
Tensor slice(const Tensor& tensor, std::size_t axis, std::int64_t first, std::int64_t count) {
  if (!tensor.present()) return {};
  Shape shape = tensor.shape();
  shape[axis] = count;
  Tensor part = Tensor::allocate(tensor.type(), shape);
  std::int64_t inner = static_cast<std::int64_t>(element_size(tensor.type()));
  for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  const auto piece = static_cast<std::size_t>(count * inner);
  const auto pitch = static_cast<std::size_t>(tensor.dim(axis) * inner);
  const std::byte* source = tensor.bytes().data() + first * inner;
  for (std::size_t place = 0; place < part.size_bytes(); place += piece, source += pitch) {
    std::memcpy(part.bytes().data() + place, source, piece);
  }
  return part;
}

// The outputs of row `t` alone.
Outputs row_of(const LayerCall& call, const Outputs& batch, std::int64_t t) {
  const std::int64_t nkv = call.config.num_kv_heads;
  Outputs row;
  row.index_score = slice(batch.index_score, 1, t, 1);
  row.topk_index = slice(batch.topk_index, 1, t, 1);
  row.sparse_block_table = slice(batch.sparse_block_table, 0, t * nkv, nkv);
  row.sparse_context_lens = slice(batch.sparse_context_lens, 0, t * nkv, nkv);
  row.attn_output = slice(batch.attn_output, 0, t, 1);
  return row;
}

// Turns a call and its outputs into those of row `t` alone, a request of its own.
void keep_row(const LayerCall& batch, std::int64_t t, LayerCall& call) {
  const std::int64_t r = test::request_of(batch, t);
  call.config.num_tokens = 1;
  call.qkv = slice(batch.qkv, 0, t, 1);
  call.positions = slice(batch.positions, 0, t, 1);
  call.slot_mapping = slice(batch.slot_mapping, 0, t, 1);
  call.index_slot_mapping = slice(batch.index_slot_mapping, 0, t, 1);
  call.page16_slot_mapping = Tensor();
  call.block_table = slice(batch.block_table, 0, r, 1);
  call.topk_index = slice(batch.topk_index, 1, t, 1);
  const auto position =
      static_cast<std::int32_t>(std::max<std::int64_t>(0, call.positions.as<std::int64_t>()[0]));
  call.context_lens = test::int32_tensor({1}, {position});
  call.seq_lens = test::int32_tensor({1}, {position + 1});
  call.query_start_loc = test::int32_tensor({2}, {0, 1});
}

TEST_P(AttentionInvariance, ARowAloneGivesWhatItGivesInTheBatch) {
  LayerCall alone = call_;
  Outputs inputs = outputs_;
  for (std::int64_t t = 0; t < call_.config.num_tokens; ++t) {
    keep_row(call_, t, alone);
    inputs.q = slice(outputs_.q, 0, t, 1);
    inputs.index_q = slice(outputs_.index_q, 0, t, 1);
    run_after_insertion(alone, inputs, kKeepAll);
    ASSERT_EQ(attention_difference(row_of(call_, outputs_, t), inputs), "")
        << "row " << t << ", " << describe(options_);
  }
}

// A permutation of the pool's blocks: new[b] is where block b goes.
struct Permutation {
  std::vector<std::int64_t> target;

  Permutation(std::int64_t blocks, std::uint64_t seed) : target(static_cast<std::size_t>(blocks)) {
    std::iota(target.begin(), target.end(), 0);
    std::mt19937_64 random(seed);
    std::shuffle(target.begin(), target.end(), random);
  }

  std::int64_t block(std::int64_t block) const { return target[static_cast<std::size_t>(block)]; }

  // Moves blocks of `unit` things each: slots, rebased slots or pages.
  std::int64_t moved(std::int64_t index, std::int64_t unit) const {
    return index < 0 ? index : block(index / unit) * unit + index % unit;
  }

  // Moves the blocks of a tensor that holds `planes` pools one after another.
  void apply(Tensor& tensor, std::int64_t planes = 1) const {
    if (!tensor.present()) return;
    const Tensor before = tensor;
    const std::size_t piece =
        tensor.size_bytes() / (target.size() * static_cast<std::size_t>(planes));
    for (std::size_t i = 0; i < target.size() * static_cast<std::size_t>(planes); ++i) {
      const std::size_t plane = i / target.size() * target.size();
      const std::size_t to = plane + static_cast<std::size_t>(target[i % target.size()]);
      std::memcpy(tensor.bytes().data() + to * piece, before.bytes().data() + i * piece, piece);
    }
  }
};

void move_slots(const Permutation& permutation, std::int64_t unit, Tensor& slots) {
  if (!slots.present()) return;
  for (std::int64_t& slot : slots.as<std::int64_t>()) slot = permutation.moved(slot, unit);
}

LayerCall permuted(const LayerCall& call, const Permutation& permutation) {
  LayerCall other = call;
  for (std::int32_t& entry : other.block_table.as<std::int32_t>()) {
    if (entry < 0 || entry >= call.num_blocks()) continue;  // a column that no row sees
    entry = static_cast<std::int32_t>(permutation.block(entry));
  }
  move_slots(permutation, 128, other.slot_mapping);
  move_slots(permutation, 128, other.index_slot_mapping);
  move_slots(permutation, 256, other.page16_slot_mapping);
  for (Tensor* pool : {&other.k_cache, &other.v_cache, &other.kv_cache, &other.index_cache}) {
    permutation.apply(*pool);
  }
  if (call.config.scale_granularity == ScaleGranularity::head_slot) {
    permutation.apply(other.k_scale, call.config.num_kv_heads);
    permutation.apply(other.v_scale, call.config.num_kv_heads);
  }
  return other;
}

// The table that the permuted pool should give: its used entries with their pages moved.
Tensor permuted_table(const LayerCall& call, const Outputs& outputs,
                      const Permutation& permutation) {
  Tensor table = outputs.sparse_block_table;
  if (!table.present()) return table;
  const std::int64_t nkv = call.config.num_kv_heads;
  const std::int64_t pages = call.config.kv_storage == KvStorage::separate ? 8 : 16;
  const auto lengths = outputs.sparse_context_lens.as<std::int32_t>();
  const auto width = static_cast<std::size_t>(table.dim(1));
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    const auto used = static_cast<std::size_t>((lengths[row] + kBlockSize - 1) / kBlockSize * 8);
    for (std::int32_t& id : table.as<std::int32_t>().subspan(row * width, used)) {
      id = static_cast<std::int32_t>(permutation.moved(id / nkv, pages) * nkv + id % nkv);
    }
  }
  return table;
}

TEST_P(AttentionInvariance, BlocksMayLieAnywhereInThePool) {
  const Permutation permutation(call_.num_blocks(), GetParam());
  const Outputs got = run_layer(permuted(call_, permutation), {}, kKeepAll);
  Outputs wanted = outputs_;
  wanted.sparse_block_table = permuted_table(call_, outputs_, permutation);
  EXPECT_EQ(attention_difference(wanted, got), "") << describe(options_);
  for (Tensor* pool : {&wanted.k_cache, &wanted.v_cache, &wanted.kv_cache, &wanted.index_cache}) {
    permutation.apply(*pool);
  }
  EXPECT_TRUE(identical(wanted.k_cache, got.k_cache));
  EXPECT_TRUE(identical(wanted.v_cache, got.v_cache));
  EXPECT_TRUE(identical(wanted.kv_cache, got.kv_cache));
  EXPECT_TRUE(identical(wanted.index_cache, got.index_cache));
}

}  // namespace
}  // namespace zerodiff::reference
