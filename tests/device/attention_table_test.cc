// Tables and lengths from given selections, entry by entry (numerics.md section 12).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/device/attention_test_support.h"

namespace zerodiff::device {
namespace {

struct TableCase {
  std::string name;
  std::int64_t context;                 // of the only row, whose position this is
  std::vector<std::int32_t> selection;  // its length is topk
  std::vector<std::int32_t> blocks;     // in table order
  std::int32_t length;
};

const TableCase kTableCases[] = {
    {"own_block_alone", 0, {0, -1, -1}, {0}, 1},
    {"own_block_full", 127, {0, -1, -1}, {0}, 128},
    {"own_block_goes_last", 300, {2, 0, 1, -1}, {0, 1, 2}, 2 * 128 + 45},
    {"own_block_last_already", 300, {1, 0, 2}, {1, 0, 2}, 2 * 128 + 45},
    {"own_block_in_the_middle", 640, {3, 5, 0, 4}, {3, 0, 4, 5}, 3 * 128 + 1},
    {"own_block_missing", 640, {3, 1, 0}, {3, 1, 0}, 3 * 128},
    {"topk_1_other_block", 640, {4}, {4}, 128},
    {"topk_1_own_block", 640, {5}, {5}, 1},
    {"nothing_selected", 640, {-1, -1}, {}, 0},
    {"gaps_are_left_out", 640, {-1, 5, -1, 2, -1}, {2, 5}, 128 + 1},
    {"no_more_than_the_row_sees", 5, {-1}, {}, 0},
};

// Storage and kv heads do not change the order.
struct Layout {
  KvStorage storage;
  std::int64_t kv_heads;
};
const Layout kLayouts[] = {{KvStorage::separate, 1},
                           {KvStorage::separate, 3},
                           {KvStorage::block_contiguous, 1},
                           {KvStorage::block_contiguous, 8}};

AttentionCase table_case(const TableCase& of, const Layout& layout) {
  GeneratorOptions options = attention_options(layout.kv_heads, layout.kv_heads);
  options.config.kv_storage = layout.storage;
  options.config.topk = static_cast<std::int64_t>(of.selection.size());
  options.config.num_tokens = 1;
  options.min_context = options.max_context = of.context;
  AttentionCase made{generate_call(options), {}};
  made.inserted.topk_index =
      Tensor::allocate(ElementType::int32, {layout.kv_heads, 1, options.config.topk});
  auto selected = made.inserted.topk_index.as<std::int32_t>();
  for (std::size_t i = 0; i < selected.size(); ++i) {
    selected[i] = of.selection[i % of.selection.size()];
  }
  return made;
}

std::vector<std::int32_t> wanted_entries(const TableCase& of, const Layout& layout,
                                         const LayerCall& call, std::int64_t head) {
  const std::int64_t stride = layout.storage == KvStorage::separate ? 8 : 16;
  std::vector<std::int32_t> entries;
  for (const std::int32_t block : of.blocks) {
    const std::int64_t physical =
        call.block_table.as<std::int32_t>()[static_cast<std::size_t>(block)];
    for (std::int64_t j = 0; j < 8; ++j) {
      entries.push_back(
          static_cast<std::int32_t>((physical * stride + j) * layout.kv_heads + head));
    }
  }
  entries.resize(of.selection.size() * 8, 0);
  return entries;
}

class SparseBlockTable : public testing::TestWithParam<TableCase> {};

TEST_P(SparseBlockTable, ListsPagesWithTheOwnBlockLast) {
  for (const Layout& layout : kLayouts) {
    const AttentionCase of = table_case(GetParam(), layout);
    const Outputs outputs = run_stages(of, PathKind::unfused,
                                       {.first_stage = AttentionStage::sparse_block_table,
                                        .last_stage = AttentionStage::sparse_block_table});
    const auto table = outputs.sparse_block_table.as<std::int32_t>();
    const std::size_t width = GetParam().selection.size() * 8;
    for (std::int64_t head = 0; head < layout.kv_heads; ++head) {
      const auto row = table.subspan(static_cast<std::size_t>(head) * width, width);
      EXPECT_EQ(std::vector<std::int32_t>(row.begin(), row.end()),
                wanted_entries(GetParam(), layout, of.call, head));
      EXPECT_EQ(outputs.sparse_context_lens.as<std::int32_t>()[static_cast<std::size_t>(head)],
                GetParam().length);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Selections, SparseBlockTable, testing::ValuesIn(kTableCases),
                         [](const auto& each) { return each.param.name; });

// With skip_index_branch an earlier layer's selection is all there is.
GeneratorOptions skip_options() {
  GeneratorOptions options = attention_options(6, 2);
  options.config.skip_index_branch = true;
  options.config.num_tokens = 7;
  options.capacity = 9;
  options.config.batch_mode = BatchMode::graph;
  options.num_requests = 2;
  options.empty_row_share = 0.2;
  return options;
}

TEST(SkippedIndexBranch, ReadsTheSelectionOfTheCall) {
  AttentionCase reused = attention_case(skip_options());
  AttentionCase given = reused;
  given.call.config.skip_index_branch = false;
  given.inserted.topk_index = reused.call.topk_index;
  for (const PathKind kind : kPathKinds) {
    const Outputs a = run_stages(reused, kind);
    const Outputs b = run_stages(given, kind, {.first_stage = AttentionStage::sparse_block_table});
    EXPECT_EQ(attention_difference(a, b), "") << name_of(kind);
    EXPECT_TRUE(a.attn_output.present());
  }
}

TEST(SkippedIndexBranch, WithoutASelectionHasNoAttention) {
  AttentionCase of = attention_case(skip_options());
  of.call.topk_index = Tensor();
  for (const PathKind kind : kPathKinds) {
    const Outputs outputs = run_stages(of, kind);
    EXPECT_FALSE(outputs.sparse_block_table.present());
    EXPECT_FALSE(outputs.attn_output.present());
  }
}

}  // namespace
}  // namespace zerodiff::device
