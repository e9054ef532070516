// reference/sparse_block_table.h by hand-made selections (numerics.md section 12).
#include "reference/sparse_block_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fixtures/error.h"
#include "tests/oracle/attention_difference.h"
#include "tests/oracle/block_selection.h"
#include "tests/reference/attention_calls.h"

namespace zerodiff::reference {
namespace {

using Elements = std::vector<std::int32_t>;

constexpr test::CallKind kContiguous{"contiguous", ElementType::bfloat16, std::nullopt,
                                     std::nullopt, KvStorage::block_contiguous};

LayerCall call_at(const std::vector<std::int64_t>& positions, std::int64_t topk,
                  std::int64_t num_kv_heads = 1, const test::CallKind& kind = test::kBfloat16) {
  test::CallShape shape;
  shape.config = test::plain_config(num_kv_heads, num_kv_heads);
  shape.config.topk = topk;
  shape.kind = kind;
  shape.positions = positions;
  shape.pool_blocks = 1;
  return test::decode_call(shape);
}

// The eight ids of pages first, first + 1, ... with a head folded in.
void append_pages(Elements& row, std::int32_t first, std::int32_t num_kv_heads, std::int32_t head) {
  for (std::int32_t j = 0; j < 8; ++j) row.push_back((first + j) * num_kv_heads + head);
}

struct TableCase {
  std::string name;
  std::int64_t position;
  Elements selection;      // of one row; its size is topk
  Elements blocks_listed;  // in table order
  std::int32_t length;
};
void PrintTo(const TableCase& row, std::ostream* out) {
  *out << row.name;
}

class SparseBlockTableRow : public testing::TestWithParam<TableCase> {};

TEST_P(SparseBlockTableRow, ListsPagesAndCountsLiveTokens) {
  const TableCase& row = GetParam();
  const auto topk = static_cast<std::int64_t>(row.selection.size());
  for (const test::CallKind& kind : {test::kBfloat16, kContiguous}) {
    LayerCall call = call_at({row.position}, topk, 1, kind);
    std::int32_t physical = 40;  // block b of the request is pool block 40 - 3b
    for (std::int32_t& entry : call.block_table.as<std::int32_t>()) {
      entry = physical;
      physical -= 3;
    }
    Elements wanted;
    const std::int32_t pages = kind.kv_storage == KvStorage::separate ? 8 : 16;
    for (const std::int32_t block : row.blocks_listed) {
      append_pages(wanted, (40 - 3 * block) * pages, 1, 0);
    }
    wanted.resize(row.selection.size() * 8, 0);
    const auto [table, lengths] =
        sparse_block_table(call, test::int32_tensor({1, 1, topk}, row.selection));
    EXPECT_EQ(table.shape(), (Shape{1, topk * 8})) << kind.name;
    EXPECT_EQ(test::elements_of(table), wanted) << kind.name;
    EXPECT_EQ(test::elements_of(lengths), Elements{row.length}) << kind.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    , SparseBlockTableRow,
    testing::Values(TableCase{"first_token", 0, {0}, {0}, 1},
                    TableCase{"unused_entries_are_zero", 0, {0, -1, -1}, {0}, 1},
                    TableCase{"last_token_of_a_block", 127, {0, -1}, {0}, 128},
                    TableCase{"first_token_of_a_block", 128, {1, 0}, {0, 1}, 129},
                    TableCase{"own_goes_last", 760, {5, 0, 2, 3}, {0, 2, 3, 5}, 505},
                    TableCase{"others_keep_their_rank", 760, {3, 5, 0, 2}, {3, 0, 2, 5}, 505},
                    TableCase{"own_alone", 760, {5}, {5}, 121},
                    TableCase{"without_own", 760, {4, 0}, {4, 0}, 256},
                    TableCase{"without_own_and_with_room", 760, {4, 0, -1}, {4, 0}, 256},
                    // Only a reused selection can hold so many blocks; p + 1 caps the length.
                    TableCase{"without_own_capped", 200, {0, 0, -1}, {0, 0}, 201},
                    TableCase{"nothing_selected", 300, {-1, -1}, {}, 0}),
    [](const auto& row) { return row.param.name; });

TEST(SparseBlockTable, HeadsAreFoldedIntoTheIds) {
  for (const test::CallKind& kind : {test::kBfloat16, kContiguous}) {
    LayerCall call = call_at({130, 5}, 2, 4, kind);
    call.block_table = test::int32_tensor({2, 3}, {9, 3, 77, 3, 55, 66});
    const std::int32_t pages = kind.kv_storage == KvStorage::separate ? 8 : 16;
    Elements selection;
    Elements wanted;
    for (std::int32_t head = 0; head < 4; ++head) {
      // Heads 1 and 3 select their own block only; row 1 always its only one.
      selection.insert(selection.end(), {1, head % 2 == 0 ? 0 : -1, 0, -1});
      if (head % 2 == 0) append_pages(wanted, 9 * pages, 4, head);
      append_pages(wanted, 3 * pages, 4, head);
      wanted.resize(static_cast<std::size_t>(head + 1) * 16, 0);
    }
    for (std::int32_t head = 0; head < 4; ++head) {
      append_pages(wanted, 3 * pages, 4, head);
      wanted.resize(static_cast<std::size_t>(head + 5) * 16, 0);
    }
    const auto [table, lengths] =
        sparse_block_table(call, test::int32_tensor({4, 2, 2}, selection));
    EXPECT_EQ(test::elements_of(table), wanted) << kind.name;
    EXPECT_EQ(test::elements_of(lengths), (Elements{131, 3, 131, 3, 6, 6, 6, 6})) << kind.name;
  }
}

TEST(SparseBlockTable, EmptyRowsAreAllZero) {
  const LayerCall call = call_at({-1, 3, INT64_MIN}, 2, 2);
  const auto [table, lengths] = sparse_block_table(
      call, test::int32_tensor({2, 3, 2}, {-1, -1, 0, -1, -1, -1, -1, -1, 0, -1, -1, -1}));
  EXPECT_EQ(test::elements_of(lengths), (Elements{0, 0, 4, 4, 0, 0}));
  Elements wanted(32, 0);
  append_pages(wanted, 0, 2, 0);
  wanted.resize(48, 0);
  append_pages(wanted, 0, 2, 1);
  wanted.resize(96, 0);
  EXPECT_EQ(test::elements_of(table), wanted);
}

TEST(SparseBlockTable, NoTokens) {
  LayerCall call = call_at({3}, 2, 2);
  call.config.num_tokens = 0;
  call.query_start_loc = test::int32_tensor({2}, {0, 0});
  const auto [table, lengths] = sparse_block_table(call, test::int32_tensor({2, 0, 2}, {}));
  EXPECT_EQ(table.shape(), (Shape{0, 16}));
  EXPECT_EQ(lengths.shape(), (Shape{0}));
}

// Every context length from 1 on: the length counts every token once topk is wide enough, and what
// the selected blocks hold otherwise.
TEST(SparseBlockTable, LengthsOfEveryContext) {
  std::vector<std::int64_t> positions;
  for (std::int64_t context = 1; context <= 288; ++context) positions.push_back(context - 1);
  for (std::int64_t context = 2030; context <= 2070; ++context) positions.push_back(context - 1);
  for (const std::int64_t topk : {1, 2, 3, 16, 17}) {
    const LayerCall call = call_at(positions, topk);
    Elements selection;
    Elements wanted;
    for (const std::int64_t position : positions) {
      const std::int64_t own = position / kBlockSize;
      for (std::int64_t rank = 0; rank < topk; ++rank) {
        selection.push_back(static_cast<std::int32_t>(rank <= own ? own - rank : -1));
      }
      const std::int64_t others = std::min(topk - 1, own);
      wanted.push_back(static_cast<std::int32_t>(others * kBlockSize + position % kBlockSize + 1));
      if (topk > own) {
        ASSERT_EQ(wanted.back(), position + 1);
      }
    }
    const auto rows = static_cast<std::int64_t>(positions.size());
    const Tensor topk_index = test::int32_tensor({1, rows, topk}, selection);
    const SparseBlockTable got = sparse_block_table(call, topk_index);
    EXPECT_EQ(test::elements_of(got.context_lens), wanted) << "topk " << topk;
    const oracle::BlockTable second = oracle::sparse_block_table(call, topk_index);
    EXPECT_EQ(oracle::tensor_difference("table", second.table, got.table), "") << "topk " << topk;
  }
}

struct IdLimit {
  std::string name;
  test::CallKind kind;
  std::int64_t num_kv_heads;
  std::int32_t last_block;  // whose last id is the largest below 2^31
};
void PrintTo(const IdLimit& limit, std::ostream* out) {
  *out << limit.name;
}

class SparseBlockTableIds : public testing::TestWithParam<IdLimit> {};

TEST_P(SparseBlockTableIds, OfTwoToThe31OrMoreAreRejected) {
  const IdLimit& limit = GetParam();
  LayerCall call = call_at({0}, 1, limit.num_kv_heads, limit.kind);
  const Tensor selection = test::int32_tensor(
      {limit.num_kv_heads, 1, 1}, Elements(static_cast<std::size_t>(limit.num_kv_heads), 0));
  call.block_table = test::int32_tensor({1, 2}, {limit.last_block, 0});
  const Elements ids = test::elements_of(sparse_block_table(call, selection).table);
  EXPECT_GT(*std::min_element(ids.begin(), ids.end()), 0);
  call.block_table = test::int32_tensor({1, 2}, {limit.last_block + 1, 0});
  try {
    sparse_block_table(call, selection);
    FAIL() << "an id of 2^31 was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find("block_table"), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(, SparseBlockTableIds,
                         testing::Values(IdLimit{"one_head", test::kBfloat16, 1, (1 << 28) - 1},
                                         IdLimit{"four_heads", test::kBfloat16, 4, (1 << 26) - 1},
                                         IdLimit{"contiguous", kContiguous, 1, (1 << 27) - 1},
                                         IdLimit{"contiguous_heads", kContiguous, 8,
                                                 (1 << 24) - 1}),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace zerodiff::reference
