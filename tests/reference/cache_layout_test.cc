// reference/cache_layout.h against arrays indexed literally as numerics.md section 8 draws them.
#include "reference/cache_layout.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace zerodiff::reference {
namespace {

constexpr std::int64_t kPages = 3;
constexpr std::int64_t kBlocks = 2;

struct LayoutCase {
  std::int64_t x;
  std::int64_t num_kv_heads;
};
void PrintTo(const LayoutCase& row, std::ostream* out) {
  *out << "x=" << row.x << " heads=" << row.num_kv_heads;
}

class PagedLayoutWalk : public testing::TestWithParam<LayoutCase> {
 protected:
  PagedLayout layout(bool is_value, std::int64_t base_page = 0) const {
    return {.num_kv_heads = GetParam().num_kv_heads,
            .vector_width = GetParam().x,
            .base_page = base_page,
            .is_value = is_value};
  }

  // Both directions between an element index and its place.
  static void expect_place(const PagedLayout& layout, std::int64_t index,
                           const PagedElement& place) {
    ASSERT_EQ(layout.element(place.page, place.head, place.offset, place.dim), index)
        << "page " << place.page << " head " << place.head << " offset " << place.offset << " dim "
        << place.dim;
    const PagedElement found = element_at(layout, index);
    ASSERT_EQ(found.page, place.page) << index;
    ASSERT_EQ(found.head, place.head) << index;
    ASSERT_EQ(found.offset, place.offset) << index;
    ASSERT_EQ(found.dim, place.dim) << index;
  }

  // The elements of one page in memory order, as [head][D/x][16][x] or [head][16/x][D][x].
  static void walk_page(const PagedLayout& layout, std::int64_t page, std::int64_t& index) {
    const std::int64_t x = layout.vector_width;
    const std::int64_t outer = layout.is_value ? kPageSize / x : kHeadDim / x;
    const std::int64_t inner = layout.is_value ? kHeadDim : kPageSize;
    for (std::int64_t head = 0; head < layout.num_kv_heads; ++head) {
      for (std::int64_t a = 0; a < outer; ++a) {
        for (std::int64_t b = 0; b < inner; ++b) {
          for (std::int64_t c = 0; c < x; ++c, ++index) {
            const std::int64_t chunk = a * x + c;
            const PagedElement k_place{page, head, b, chunk};
            const PagedElement v_place{page, head, chunk, b};
            expect_place(layout, index, layout.is_value ? v_place : k_place);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
};

TEST_P(PagedLayoutWalk, SeparatePlanes) {
  for (const bool is_value : {false, true}) {
    std::int64_t index = 0;
    for (std::int64_t page = 0; page < kPages; ++page) walk_page(layout(is_value), page, index);
    EXPECT_EQ(index, kPages * layout(is_value).page_elements());
  }
}

// kv_cache is [NB][2][8] pages: the K pages of block b have ids 16b..16b+7, and the V page of the
// same id lies 8 pages later.
TEST_P(PagedLayoutWalk, BlockContiguousPool) {
  std::int64_t index = 0;
  for (std::int64_t block = 0; block < kBlocks; ++block) {
    for (const bool is_value : {false, true}) {
      for (std::int64_t page = 0; page < kPagesPerBlock; ++page) {
        walk_page(layout(is_value, is_value ? kPagesPerBlock : 0), 16 * block + page, index);
      }
    }
  }
  EXPECT_EQ(index, kBlocks * 16 * layout(false).page_elements());
}

TEST_P(PagedLayoutWalk, PoolsPast2To31Elements) {
  for (const bool is_value : {false, true}) {
    const PagedLayout pool = layout(is_value);
    const std::int64_t page = std::int64_t{1} << 36;
    std::int64_t index = page * pool.page_elements();
    walk_page(pool, page, index);
    EXPECT_EQ(index, (page + 1) * pool.page_elements());
  }
}

INSTANTIATE_TEST_SUITE_P(CacheLayout, PagedLayoutWalk,
                         testing::Values(LayoutCase{8, 1}, LayoutCase{8, 2}, LayoutCase{8, 3},
                                         LayoutCase{8, 4}, LayoutCase{16, 1}, LayoutCase{16, 2},
                                         LayoutCase{16, 3}, LayoutCase{16, 4}),
                         [](const auto& row) {
                           std::string name = "x";
                           name.append(std::to_string(row.param.x)).append("_heads");
                           return name.append(std::to_string(row.param.num_kv_heads));
                         });

LayerCall call_with(KvStorage storage, std::optional<ElementType> kv_cache_dtype) {
  LayerCall call;
  call.config.num_kv_heads = 3;
  call.config.kv_storage = storage;
  call.config.kv_cache_dtype = kv_cache_dtype;
  call.qkv = Tensor::zeros(ElementType::float16, {1, 128});
  return call;
}

TEST(CacheLayout, OfACall) {
  for (const KvStorage storage : {KvStorage::separate, KvStorage::block_contiguous}) {
    for (const bool fp8 : {false, true}) {
      const std::optional<ElementType> type =
          fp8 ? std::optional(ElementType::float8_e5m2) : std::nullopt;
      const PagedLayout k = k_layout(call_with(storage, type));
      const PagedLayout v = v_layout(call_with(storage, type));
      EXPECT_FALSE(k.is_value);
      EXPECT_TRUE(v.is_value);
      EXPECT_EQ(k.base_page, 0);
      EXPECT_EQ(v.base_page, storage == KvStorage::separate ? 0 : 8);
      for (const PagedLayout& layout : {k, v}) {
        EXPECT_EQ(layout.num_kv_heads, 3);
        EXPECT_EQ(layout.vector_width, fp8 ? 16 : 8);
        EXPECT_EQ(layout.page_elements(), 3 * 16 * 128);
      }
    }
  }
}

// For fp8 the V layout is plain [head][D][page]; 16-bit caches tell the two apart.
TEST(CacheLayout, Fp8ValuesArePlain) {
  const PagedLayout v = v_layout(call_with(KvStorage::separate, ElementType::float8_e4m3fn));
  EXPECT_EQ(v.element(0, 1, 5, 7), (1 * 128 + 7) * 16 + 5);
  const PagedLayout wide = v_layout(call_with(KvStorage::separate, std::nullopt));
  EXPECT_NE(wide.element(0, 1, 9, 7), (1 * 128 + 7) * 16 + 9);
}

struct SlotCase {
  std::int64_t slot;
  std::int64_t rebased;
  PagePlace place;          // of the slot itself
  PagePlace rebased_place;  // of the rebased slot
};

constexpr std::int64_t kFar = std::int64_t{1} << 40;

const SlotCase kSlots[] = {
    {0, 0, {0, 0}, {0, 0}},
    {15, 15, {0, 15}, {0, 15}},
    {16, 16, {1, 0}, {1, 0}},
    {17, 17, {1, 1}, {1, 1}},
    {127, 127, {7, 15}, {7, 15}},
    {128, 256, {8, 0}, {16, 0}},
    {129, 257, {8, 1}, {16, 1}},
    {255, 383, {15, 15}, {23, 15}},
    {256, 512, {16, 0}, {32, 0}},
    {kFar - 1, 2 * kFar - 129, {(kFar >> 4) - 1, 15}, {(kFar >> 3) - 9, 15}},
    {kFar, 2 * kFar, {kFar >> 4, 0}, {kFar >> 3, 0}},
    {kFar + 129, 2 * kFar + 257, {(kFar >> 4) + 8, 1}, {(kFar >> 3) + 16, 1}},
};

void expect_place(const PagePlace& expected, const PagePlace& got, std::int64_t slot) {
  EXPECT_EQ(expected.page, got.page) << "slot " << slot;
  EXPECT_EQ(expected.offset, got.offset) << "slot " << slot;
}

TEST(SlotPlaces, BoundarySlots) {
  for (const SlotCase& row : kSlots) {
    EXPECT_EQ(rebase_slot(row.slot), row.rebased) << row.slot;
    EXPECT_EQ(unrebase_slot(row.rebased), row.slot) << row.slot;
    // The V half of the same block, 128 further, belongs to the same slot.
    EXPECT_EQ(unrebase_slot(row.rebased + 128), row.slot) << row.slot;
    expect_place(row.place, page_of(row.slot), row.slot);
    expect_place(row.rebased_place, page_of(row.rebased), row.rebased);
  }
}

TEST(SlotPlaces, NegativeSlotsStayNegative) {
  for (const std::int64_t slot : {std::int64_t{-1}, std::int64_t{-2}, std::int64_t{-16},
                                  std::int64_t{-128}, std::int64_t{-129}, INT64_MIN}) {
    EXPECT_LT(rebase_slot(slot), 0) << slot;
    EXPECT_LT(unrebase_slot(slot), 0) << slot;
    expect_place({-1, -1}, page_of(slot), slot);
  }
}

TEST(SlotPlaces, RebaseSkipsExactlyTheValueHalves) {
  std::int64_t expected = 0;
  for (std::int64_t slot = 0; slot < 5 * kBlockSize; ++slot, ++expected) {
    if (slot > 0 && slot % kBlockSize == 0) expected += kBlockSize;
    ASSERT_EQ(rebase_slot(slot), expected);
    ASSERT_EQ(unrebase_slot(expected), slot);
  }
}

}  // namespace
}  // namespace zerodiff::reference
