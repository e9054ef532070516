#include "compare/table_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "tests/compare/attention_inputs.h"

namespace zerodiff::compare {
namespace {

// Two kv heads, topk 3, rows with 1, 3 and 6 visible blocks and an empty one.
AttentionCase table_case() {
  return random_case(test::kBfloat16, 2, {5, 300, 700, -1}, 2, 2, 1, 3);
}

constexpr std::size_t kWidth = 24;

std::span<std::int32_t> row_of(Outputs& outputs, std::size_t row) {
  return outputs.sparse_block_table.as<std::int32_t>().subspan(row * kWidth, kWidth);
}

TableCheck check(const AttentionCase& attention) {
  return check_table(attention.call, attention.outputs.topk_index,
                     attention.outputs.sparse_block_table, attention.outputs.sparse_context_lens);
}

TEST(TableOfTheReference, IsIdentical) {
  const TableCheck found = check(table_case());
  EXPECT_EQ(found.rows, 8);
  EXPECT_EQ(found.identical, 8);
  EXPECT_EQ(found.faults, 0);
}

TEST(TableOfTheReference, MayHaveItsOtherBlocksInAnyOrder) {
  AttentionCase attention = table_case();
  const auto row = row_of(attention.outputs, 4);
  std::swap_ranges(row.begin(), row.begin() + 8, row.begin() + 8);
  const TableCheck found = check(attention);
  EXPECT_EQ(found.reordered, 1);
  EXPECT_EQ(found.faults, 0);
}

TEST(TableOfTheReference, FollowsTheSelectionItIsGiven) {
  AttentionCase attention = table_case();
  auto ids = attention.outputs.topk_index.as<std::int32_t>();
  std::swap(ids[1], ids[2]);
  std::swap(ids[3], ids[5]);  // row 1 of head 0
  const TableCheck found = check(attention);
  EXPECT_EQ(found.faults, 0);
  EXPECT_EQ(found.identical + found.reordered, 8);
}

struct WrongTable {
  const char* name;
  std::function<void(Outputs&)> change;
  const char* problem;
};
void PrintTo(const WrongTable& wrong, std::ostream* out) {
  *out << wrong.name;
}

class WrongTables : public testing::TestWithParam<WrongTable> {};

TEST_P(WrongTables, AreFaultsOfOneRow) {
  AttentionCase attention = table_case();
  GetParam().change(attention.outputs);
  const TableCheck found = check(attention);
  EXPECT_EQ(found.faults, 1);
  ASSERT_EQ(found.faulty_rows.size(), 1U);
  EXPECT_EQ(found.faulty_rows[0], 4);
  EXPECT_NE(found.first_faults[0].problem.find(GetParam().problem), std::string::npos)
      << found.first_faults[0].problem;
  const Coordinates where{{"token", 2}, {"request", 2}, {"position", 700}, {"kv_head", 0}};
  EXPECT_EQ(found.first_faults[0].where, where);
}

INSTANTIATE_TEST_SUITE_P(
    , WrongTables,
    testing::Values(WrongTable{"own_block_first",
                               [](Outputs& outputs) {
                                 const auto row = row_of(outputs, 4);
                                 std::swap_ranges(row.begin(), row.begin() + 8, row.begin() + 16);
                               },
                               "rank 0, page 0"},
                    WrongTable{"pages_in_another_order",
                               [](Outputs& outputs) {
                                 std::swap(row_of(outputs, 4)[1], row_of(outputs, 4)[2]);
                               },
                               "rank 0, page 1"},
                    WrongTable{"another_head", [](Outputs& outputs) { row_of(outputs, 4)[9] += 1; },
                               "rank 1, page 1"},
                    WrongTable{"length",
                               [](Outputs& outputs) {
                                 outputs.sparse_context_lens.as<std::int32_t>()[4] += 1;
                               },
                               "length"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(TableOfABrokenSelection, IsNotJudged) {
  AttentionCase attention = table_case();
  attention.outputs.topk_index.as<std::int32_t>()[0] = 1 << 30;
  const TableCheck found = check(attention);
  EXPECT_EQ(found.not_judged, 1);
  EXPECT_EQ(found.faults, 0);
  EXPECT_EQ(found.identical, 7);
}

TEST(UnusedEntries, AreZero) {
  AttentionCase attention = table_case();
  row_of(attention.outputs, 0)[8] = 3;
  EXPECT_EQ(check(attention).faults, 1);
}

}  // namespace
}  // namespace zerodiff::compare
