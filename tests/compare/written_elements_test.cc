// Where cache elements stand and which of them a call writes, against the formulas of numerics.md
// sections 7 and 8 written out.
#include "compare/written_elements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fixtures/error.h"
#include "reference/layer.h"
#include "tests/compare/small_call.h"
#include "tests/compare/tensor_bits.h"

namespace zerodiff::compare {
namespace {

std::vector<std::pair<CacheOutput, const Tensor*>> caches(const LayerCall& call) {
  std::vector<std::pair<CacheOutput, const Tensor*>> result{
      {CacheOutput::index_cache, &call.index_cache}};
  if (call.config.kv_storage == KvStorage::separate) {
    result.emplace_back(CacheOutput::k_cache, &call.k_cache);
    result.emplace_back(CacheOutput::v_cache, &call.v_cache);
  } else {
    result.emplace_back(CacheOutput::kv_cache, &call.kv_cache);
  }
  return result;
}

// Flat index of an element by the formulas, from the slot as mapped.
std::int64_t formula(const LayerCall& call, CacheOutput output, const CacheElement& e) {
  if (output == CacheOutput::index_cache) return e.slot * 128 + e.dim;
  const std::int64_t x = call.cache_vector_width();
  const std::int64_t nkv = call.config.num_kv_heads;
  std::int64_t slot = e.slot;
  if (output == CacheOutput::kv_cache) slot = 2 * (slot / 128) * 128 + slot % 128;
  const std::int64_t page = slot / 16 + (output == CacheOutput::kv_cache && e.plane == 1 ? 8 : 0);
  const std::int64_t off = slot % 16;
  const std::int64_t d = e.dim;
  const bool value = output == CacheOutput::v_cache || e.plane == 1;
  if (value) return ((page * nkv + e.head) * (16 / x) + off / x) * 128 * x + d * x + off % x;
  return ((page * nkv + e.head) * (128 / x) + d / x) * 16 * x + off * x + d % x;
}

class CachePlaces : public testing::TestWithParam<std::size_t> {
 protected:
  LayerCall call_ = generate_call(cache_kinds().at(GetParam()).options);
};

TEST_P(CachePlaces, InvertTheLayoutOfEveryElement) {
  for (const auto& [output, tensor] : caches(call_)) {
    const CacheGeometry geometry(call_, output);
    for (std::int64_t flat = 0; flat < tensor->size(); ++flat) {
      const CacheElement element = geometry.at(flat);
      ASSERT_EQ(formula(call_, output, element), flat) << static_cast<int>(output);
      ASSERT_EQ(geometry.flat_index(element), flat);
      ASSERT_LT(element.dim, kHeadDim);
      ASSERT_LT(element.head, call_.config.num_kv_heads);
      ASSERT_LT(element.slot, call_.num_slots());
      ASSERT_EQ(element.block, element.slot / 128);
    }
  }
}

TEST_P(CachePlaces, NameThePageThatTheRebasedSlotGives) {
  for (const auto& [output, tensor] : caches(call_)) {
    const CacheGeometry geometry(call_, output);
    for (std::int64_t flat = 0; flat < tensor->size(); flat += 13) {
      const CacheElement element = geometry.at(flat);
      if (output == CacheOutput::index_cache) {
        ASSERT_EQ(element.page, -1);
        ASSERT_EQ(element.offset, element.slot % 128);
        continue;
      }
      const std::int64_t pages_per_block = output == CacheOutput::kv_cache ? 16 : 8;
      ASSERT_EQ(element.page, element.block * pages_per_block + element.slot % 128 / 16);
      ASSERT_EQ(element.offset, element.slot % 16);
    }
  }
}

// The reference writes through other code: filling the caches with A and with ~A and looking for
// bytes that no longer hold the fill shows what is written.
TEST_P(CachePlaces, WrittenElementsAreThoseThatInsertionChanges) {
  LayerCall zeros = call_;
  LayerCall ones = call_;
  for (const InputField& field : kInputFields) {
    if (!field.name.ends_with("_cache") || field.name == "cos_sin_cache") continue;
    std::ranges::fill((zeros.*field.tensor).bytes(), std::byte{0x00});
    std::ranges::fill((ones.*field.tensor).bytes(), std::byte{0xFF});
  }
  const Outputs from_zeros = reference::run_insertion(zeros, {}, 1);
  const Outputs from_ones = reference::run_insertion(ones, {}, 1);
  const WrittenSlots written = written_slots(call_);
  for (const auto& [name, member] : kOutputFields) {
    const auto output = cache_output(name);
    if (!output || !(from_zeros.*member).present()) continue;
    const CacheRegions regions(call_, written, *output);
    std::int64_t count = 0;
    for (std::int64_t flat = 0; flat < (from_zeros.*member).size(); ++flat) {
      const std::uint64_t a = get_bits(from_zeros.*member, flat);
      const std::uint64_t b = get_bits(from_ones.*member, flat);
      const std::size_t bits = 8 * element_size((from_zeros.*member).type());
      const bool changed = a != 0 || b != ~std::uint64_t{0} >> (64 - bits);
      const CacheElement element = regions.geometry().at(flat);
      ASSERT_EQ(regions.is_written(element), changed) << name << " " << flat;
      count += changed ? 1 : 0;
    }
    EXPECT_EQ(regions.written_elements(), count) << name;
    EXPECT_GT(count, 0) << name;
  }
}

// With enough rows that some pages are written as a whole.
TEST_P(CachePlaces, RunsStayInOneRegion) {
  GeneratorOptions options = cache_kinds().at(GetParam()).options;
  options.config.num_tokens = options.capacity = 50;
  options.num_requests = 2;
  options.empty_row_share = 0;
  const LayerCall call = generate_call(options);
  const WrittenSlots written = written_slots(call);
  for (const auto& [output, tensor] : caches(call)) {
    const CacheRegions regions(call, written, output);
    std::int64_t longest_written = 0;
    for (std::int64_t flat = 0; flat < tensor->size(); ++flat) {
      const CacheElement element = regions.geometry().at(flat);
      const std::int64_t run = regions.run(flat, element);
      ASSERT_GE(run, 1);
      ASSERT_LE(flat + run, tensor->size());
      const CacheElement last = regions.geometry().at(flat + run - 1);
      ASSERT_EQ(regions.is_written(element), regions.is_written(last)) << flat;
      ASSERT_EQ(element.plane, last.plane) << flat;
      if (regions.is_written(element)) longest_written = std::max(longest_written, run);
    }
    EXPECT_EQ(longest_written, regions.geometry().page_elements());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, CachePlaces, testing::Range<std::size_t>(0, 4),
                         [](const auto& kind) { return name_of_kind(kind.param); });

TEST(WrittenSlotsTest, InvertTheMappingOfRowsThatStore) {
  GeneratorOptions options = small_options(5);
  options.distinct_index_slots = true;
  options.unstored_row_share = 0.3;
  const LayerCall call = generate_call(options);
  const WrittenSlots written = written_slots(call);
  const auto slots = call.slot_mapping.as<std::int64_t>();
  const auto index_slots = call.index_slot_mapping.as<std::int64_t>();
  const std::vector<std::int64_t> rows = stored_rows(call);
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(written.kv_rows, std::ssize(rows));
  for (const std::int64_t row : rows) {
    const auto i = static_cast<std::size_t>(row);
    EXPECT_EQ(written.kv_slot_of_row[i], slots[i]);
    EXPECT_EQ(written.row_of_kv_slot[static_cast<std::size_t>(slots[i])], row);
    if (index_slots[i] < 0) continue;
    EXPECT_EQ(written.row_of_index_slot[static_cast<std::size_t>(index_slots[i])], row);
  }
  EXPECT_EQ(std::ranges::count_if(written.row_of_kv_slot, [](auto row) { return row >= 0; }),
            std::ssize(rows));
}

TEST(WrittenSlotsTest, FollowAUsedGraphBuffer) {
  GeneratorOptions options = small_options();
  options.config.kv_storage = KvStorage::block_contiguous;
  options.config.batch_mode = BatchMode::graph;
  options.with_page16_buffer = true;
  LayerCall call = generate_call(options);
  const std::vector<std::int64_t> rows = stored_rows(call);
  ASSERT_GE(rows.size(), 2U);
  const auto a = static_cast<std::size_t>(rows[0]);
  const auto b = static_cast<std::size_t>(rows[1]);
  std::swap(int64s(call.page16_slot_mapping)[a], int64s(call.page16_slot_mapping)[b]);
  const WrittenSlots written = written_slots(call);
  EXPECT_EQ(written.kv_slot_of_row[a], int64s(call.slot_mapping)[b]);
  EXPECT_EQ(written.kv_slot_of_row[b], int64s(call.slot_mapping)[a]);
  int64s(call.page16_slot_mapping)[a] = int64s(call.page16_slot_mapping)[b];
  EXPECT_THROW(written_slots(call), Error);
}

TEST(WrittenSlotsTest, SkippingTheIndexBranchWritesNoIndexSlot) {
  GeneratorOptions options = small_options();
  options.config.skip_index_branch = true;
  const WrittenSlots written = written_slots(generate_call(options));
  EXPECT_EQ(written.index_rows, 0);
  EXPECT_THAT(written.row_of_index_slot, testing::Each(-1));
  EXPECT_THAT(written.index_slot_of_row, testing::Each(-1));
}

}  // namespace
}  // namespace zerodiff::compare
