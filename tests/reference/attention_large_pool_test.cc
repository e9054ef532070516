// The stages after insertion on a context of 2^20 tokens, and on blocks past the first 2^32
// elements of their pools. Pools are allocated and not touched but for the blocks in use.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <utility>

#include "reference/index_score.h"
#include "reference/index_topk.h"
#include "reference/sparse_attention.h"
#include "reference/sparse_block_table.h"
#include "tests/oracle/attention_difference.h"
#include "tests/oracle/attention_oracle.h"
#include "tests/oracle/block_selection.h"
#include "tests/reference/attention_calls.h"

namespace zerodiff::reference {
namespace {

constexpr test::CallKind kFp8{"separate", ElementType::bfloat16, ElementType::float8_e4m3fn,
                              ElementType::float8_e4m3fn};
constexpr test::CallKind kFp8Contiguous{"block_contiguous", ElementType::bfloat16,
                                        ElementType::float8_e4m3fn, ElementType::float8_e4m3fn,
                                        KvStorage::block_contiguous};

// A pool of `blocks` blocks instead of a small one, of indeterminate bytes.
void enlarge(Tensor& pool, std::int64_t blocks, std::int64_t small_blocks) {
  if (!pool.present()) return;
  Shape shape = pool.shape();
  shape[0] = shape[0] / small_blocks * blocks;
  pool = Tensor::allocate(pool.type(), shape);
}

// Codes of magnitude 0 to 1.875, of both signs.
void fill_codes(std::mt19937_64& random, std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t word = random() & 0xBFBFBFBFBFBFBFBF;
    std::memcpy(bytes.data() + i, &word, sizeof word);
  }
}

struct LargeCase {
  LayerCall call;   // its own pools stay untouched
  Outputs outputs;  // q, index_q and the pools

  // One decode token at `position`; block b of its table is pool block pool_blocks - 1 - b.
  LargeCase(const test::CallKind& kind, std::int64_t position, std::int64_t pool_blocks) {
    test::CallShape shape;
    shape.config = test::plain_config(2, 1);
    shape.kind = kind;
    shape.positions = {position};
    call = test::decode_call(shape);
    outputs = test::zero_insertion(call);
    for (Tensor* pool :
         {&call.k_cache, &call.v_cache, &call.kv_cache, &call.index_cache, &outputs.k_cache,
          &outputs.v_cache, &outputs.kv_cache, &outputs.index_cache}) {
      enlarge(*pool, pool_blocks, 1);
    }
    auto block = static_cast<std::int32_t>(pool_blocks);
    for (std::int32_t& entry : call.block_table.as<std::int32_t>()) {
      entry = block > 0 ? --block : 0;
    }
    fill(position / kBlockSize + 1);
  }

  // Random values for the queries and the last `blocks` blocks of every pool.
  void fill(std::int64_t blocks) {
    std::mt19937_64 random(3);
    for (std::int64_t i = 0; i < outputs.q.size(); ++i) {
      test::put(outputs.q, i, static_cast<float>(random() % 64) / 32 - 1);
    }
    fill_codes(random, outputs.index_q.bytes());
    for (Tensor* pool :
         {&outputs.k_cache, &outputs.v_cache, &outputs.kv_cache, &outputs.index_cache}) {
      if (!pool->present()) continue;
      const std::size_t block_bytes =
          pool->size_bytes() / static_cast<std::size_t>(call.num_blocks());
      fill_codes(random, pool->bytes().last(block_bytes * static_cast<std::size_t>(blocks)));
    }
  }

  // Every stage of both, each on the reference's results of the stages before.
  void expect_oracle() {
    outputs.index_score = index_score(call, outputs.index_q, outputs.index_cache, 2);
    expect_same("index_score", oracle::index_score(call, outputs.index_q, outputs.index_cache),
                outputs.index_score);
    outputs.topk_index = index_topk(call, outputs.index_score);
    expect_same("topk_index", oracle::index_topk(call, outputs.index_score), outputs.topk_index);
    SparseBlockTable table = sparse_block_table(call, outputs.topk_index);
    oracle::BlockTable wanted = oracle::sparse_block_table(call, outputs.topk_index);
    expect_same("sparse_block_table", wanted.table, table.table);
    expect_same("sparse_context_lens", wanted.context_lens, table.context_lens);
    const Tensor attention = sparse_attention(call, outputs.q, test::k_pool(call, outputs),
                                              test::v_pool(call, outputs), table, 2);
    outputs.sparse_block_table = std::move(table.table);
    outputs.sparse_context_lens = std::move(table.context_lens);
    expect_same("attn_output", oracle::sparse_attention(call, outputs), attention);
  }

  static void expect_same(const std::string& name, const Tensor& expected, const Tensor& got) {
    EXPECT_EQ(oracle::tensor_difference(name, expected, got), "");
  }
};

// 8,192 blocks, all of the pool; 128 MiB each of K, V and index K.
TEST(AttentionLongContext, OfAMillionTokens) {
  constexpr std::int64_t kTokens = std::int64_t{1} << 20;
  LargeCase test(kFp8, kTokens - 1, kTokens / kBlockSize);
  test.expect_oracle();
  const auto selection = test.outputs.topk_index.as<std::int32_t>();
  EXPECT_EQ(selection[0], 8191);
  EXPECT_GT(*std::max_element(selection.begin() + 1, selection.end()), 4096);
  EXPECT_LT(*std::min_element(selection.begin() + 1, selection.end()), 4096);
  EXPECT_EQ(test.outputs.sparse_context_lens.as<std::int32_t>()[0], 16 * 128);
}

class AttentionLargePool : public testing::TestWithParam<test::CallKind> {};

// 32-bit element numbers, signed or unsigned, would wrap to the pool's start.
TEST_P(AttentionLargePool, BlocksPastTwoToThe32Elements) {
  constexpr std::int64_t kBlocks = (std::int64_t{1} << 32) / (kBlockSize * kHeadDim) + 40;
  LargeCase test(GetParam(), 4300, kBlocks);
  ASSERT_GT(test.outputs.index_cache.size(), std::int64_t{1} << 32);
  ASSERT_GT(test::k_pool(test.call, test.outputs).size(), std::int64_t{1} << 32);
  test.expect_oracle();
}

INSTANTIATE_TEST_SUITE_P(, AttentionLargePool, testing::Values(kFp8, kFp8Contiguous),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace zerodiff::reference
