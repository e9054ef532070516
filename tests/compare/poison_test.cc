// Poisoned calls: live slots keep their bits, everything else is filled, and selection and attention
// of the reference do not notice.
#include "compare/poison.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compare/written_elements.h"
#include "reference/layer.h"
#include "reference/number_formats.h"
#include "tests/compare/small_call.h"

namespace zerodiff::compare {
namespace {

bool is_live(const LayerCall& call, std::int64_t slot) {
  const auto table = call.block_table.as<std::int32_t>();
  const auto lengths = call.seq_lens.as<std::int32_t>();
  const std::int64_t columns = call.block_table.dim(1);
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    for (std::int64_t position = 0; position < lengths[r]; ++position) {
      const auto column = static_cast<std::size_t>(position / kBlockSize);
      const std::int64_t block = table[r * static_cast<std::size_t>(columns) + column];
      if (slot == block * kBlockSize + position % kBlockSize) return true;
    }
  }
  return false;
}

std::uint64_t bits_at(const Tensor& tensor, std::int64_t index) {
  const auto i = static_cast<std::size_t>(index);
  return is_fp8(tensor.type()) ? tensor.as<std::uint8_t>()[i] : tensor.as<std::uint16_t>()[i];
}

class PoisonOfKind : public testing::TestWithParam<std::size_t> {};

TEST_P(PoisonOfKind, FillsExactlyWhatIsNotLive) {
  const LayerCall call = generate_call(cache_kinds()[GetParam()].options);
  const LayerCall poisoned = poisoned_call(call, PoisonFill::nan);
  std::vector<bool> live(static_cast<std::size_t>(call.num_slots()));
  for (std::size_t slot = 0; slot < live.size(); ++slot) {
    live[slot] = is_live(call, static_cast<std::int64_t>(slot));
  }
  const CacheGeometry geometry(call, CacheOutput::index_cache);
  std::int64_t filled = 0;
  for (std::int64_t i = 0; i < call.index_cache.size(); ++i) {
    const std::uint64_t bits = bits_at(poisoned.index_cache, i);
    if (live[static_cast<std::size_t>(geometry.at(i).slot)]) {
      ASSERT_EQ(bits, bits_at(call.index_cache, i)) << i;
    } else {
      ASSERT_TRUE(std::isnan(reference::value_of(poisoned.index_cache.type(), bits))) << i;
      ++filled;
    }
  }
  EXPECT_GT(filled, 0);
}

TEST_P(PoisonOfKind, DoesNotChangeSelectionAndAttention) {
  const LayerCall call = generate_call(cache_kinds()[GetParam()].options);
  const Outputs clean = reference::run_layer(call);
  ASSERT_TRUE(clean.attn_output.present());
  for (const PoisonFill fill : {PoisonFill::nan, PoisonFill::finite}) {
    const Outputs poisoned = reference::run_layer(poisoned_call(call, fill));
    EXPECT_TRUE(identical(clean.topk_index, poisoned.topk_index));
    EXPECT_TRUE(identical(clean.sparse_block_table, poisoned.sparse_block_table));
    EXPECT_TRUE(identical(clean.attn_output, poisoned.attn_output));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, PoisonOfKind, testing::Range(std::size_t{0}, cache_kinds().size()),
                         [](const auto& kind) { return name_of_kind(kind.param); });

}  // namespace
}  // namespace zerodiff::compare
