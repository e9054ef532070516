// What no live token reads must not show: everything else takes other contents, NaN among them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/device/attention_test_support.h"

namespace zerodiff::device {
namespace {

struct PoisonCase {
  std::string name;
  ElementType model_dtype;
  std::optional<ElementType> kv_dtype;
  std::optional<ElementType> index_dtype;
  KvStorage storage = KvStorage::separate;
  ScaleGranularity granularity = ScaleGranularity::tensor;
};

const PoisonCase kPoisonCases[] = {
    {"bf16", ElementType::bfloat16, std::nullopt, std::nullopt},
    {"fp16_contiguous_index_e4m3fn", ElementType::float16, std::nullopt, ElementType::float8_e4m3fn,
     KvStorage::block_contiguous},
    {"e4m3fn_head_slot", ElementType::bfloat16, ElementType::float8_e4m3fn, std::nullopt,
     KvStorage::separate, ScaleGranularity::head_slot},
    {"e4m3fnuz_contiguous_head_slot", ElementType::bfloat16, ElementType::float8_e4m3fnuz,
     ElementType::float8_e4m3fnuz, KvStorage::block_contiguous, ScaleGranularity::head_slot},
    {"e5m2", ElementType::float16, ElementType::float8_e5m2, ElementType::float8_e5m2},
};

GeneratorOptions poison_options(const PoisonCase& of) {
  GeneratorOptions options = attention_options(6, 2, 31);
  options.model_dtype = of.model_dtype;
  options.config.kv_cache_dtype = of.kv_dtype;
  options.config.index_cache_dtype = of.index_dtype;
  options.config.kv_storage = of.storage;
  options.config.scale_granularity = of.granularity;
  options.config.topk = 2;
  options.config.num_tokens = 9;
  options.config.batch_mode = BatchMode::graph;
  options.capacity = 12;
  options.num_requests = 4;
  options.max_context = 700;
  options.empty_row_share = 0.2;
  return options;
}

// Which slots somebody reads: of the index cache, and of K and V for each kv head.
struct Live {
  std::vector<bool> index;
  std::vector<bool> kv;  // [nkv][slots]
};

void mark_row(const AttentionCase& of, const Outputs& outputs, std::int64_t row, Live& live) {
  const LayerConfig& config = of.call.config;
  const std::int64_t position = of.call.positions.as<std::int64_t>()[static_cast<std::size_t>(row)];
  const std::int64_t request = request_of(of.call, row);
  for (std::int64_t j = 0; j <= position; ++j) {
    const std::int64_t slot = slot_of(of.call, request, j);
    live.index[static_cast<std::size_t>(slot)] = true;
    for (std::int64_t head = 0; head < config.num_kv_heads; ++head) {
      const auto selection = outputs.topk_index.as<std::int32_t>().subspan(
          static_cast<std::size_t>((head * config.num_tokens + row) * config.topk),
          static_cast<std::size_t>(config.topk));
      if (std::ranges::count(selection, j / kBlockSize) == 0) continue;
      live.kv[static_cast<std::size_t>(head * of.call.num_slots() + slot)] = true;
    }
  }
}

Live live_slots(const AttentionCase& of, const Outputs& outputs) {
  const auto slots = static_cast<std::size_t>(of.call.num_slots());
  const auto heads = static_cast<std::size_t>(of.call.config.num_kv_heads);
  Live live{std::vector<bool>(slots), std::vector<bool>(slots * heads)};
  for (std::int64_t row = 0; row < of.call.config.num_tokens; ++row) {
    mark_row(of, outputs, row, live);
  }
  return live;
}

// Rows that a path has a q of, but no attention.
void poison_rows(const AttentionCase& of, std::byte fill, Tensor& rows) {
  const auto capacity = static_cast<std::size_t>(of.call.capacity());
  const std::size_t pitch = rows.size_bytes() / capacity;
  for (std::size_t row = 0; row < capacity; ++row) {
    const bool scheduled = static_cast<std::int64_t>(row) < of.call.config.num_tokens;
    if (scheduled && of.call.positions.as<std::int64_t>()[row] >= 0) continue;
    std::ranges::fill(rows.bytes().subspan(row * pitch, pitch), fill);
  }
}

// Copies the elements of live slots from `from`; set_kv's place of an element is what counts here,
// so a marker value tells where it lies.
void poison_kv(AttentionCase& of, const Live& live, std::byte fill) {
  const AttentionCase from = of;
  for (Tensor* tensor : {&of.inserted.k_cache, &of.inserted.v_cache, &of.inserted.kv_cache}) {
    if (tensor->present()) std::ranges::fill(tensor->bytes(), fill);
  }
  for (std::int64_t head = 0; head < of.call.config.num_kv_heads; ++head) {
    for (std::int64_t slot = 0; slot < of.call.num_slots(); ++slot) {
      if (!live.kv[static_cast<std::size_t>(head * of.call.num_slots() + slot)]) continue;
      for (std::int64_t d = 0; d < kHeadDim; ++d) {
        copy_kv(from, of, Plane::k, slot, head, d);
        copy_kv(from, of, Plane::v, slot, head, d);
      }
    }
  }
}

void poison_index(AttentionCase& of, const Live& live, std::byte fill) {
  const std::size_t pitch = kHeadDim * element_size(of.inserted.index_cache.type());
  for (std::size_t slot = 0; slot < live.index.size(); ++slot) {
    if (live.index[slot]) continue;
    std::ranges::fill(of.inserted.index_cache.bytes().subspan(slot * pitch, pitch), fill);
  }
}

void poison_scales(AttentionCase& of, const Live& live) {
  if (of.call.config.scale_granularity != ScaleGranularity::head_slot) return;
  for (Tensor* scales : {&of.call.k_scale, &of.call.v_scale}) {
    if (!scales->present()) continue;
    const auto values = scales->as<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!live.kv[i]) values[i] = std::numeric_limits<float>::quiet_NaN();
    }
  }
}

class Poison : public testing::TestWithParam<PoisonCase> {};

TEST_P(Poison, OfWhatNobodyReadsDoesNotShow) {
  const AttentionCase clean = attention_case(poison_options(GetParam()));
  const AttentionOptions keep{.keep_index_score = true};
  for (const PathKind kind : kPathKinds) {
    const Outputs wanted = run_stages(clean, kind, keep);
    const Live live = live_slots(clean, wanted);
    ASSERT_GT(std::ranges::count(live.kv, false), 0);
    // NaN in bfloat16, float16, e4m3fn and e5m2; NaN in the fnuz formats; a large number.
    for (const std::byte fill : {std::byte{0xFF}, std::byte{0x80}, std::byte{0x77}}) {
      AttentionCase poisoned = clean;
      poison_rows(clean, fill, poisoned.inserted.q);
      poison_rows(clean, fill, poisoned.inserted.index_q);
      poison_kv(poisoned, live, fill);
      poison_index(poisoned, live, fill);
      poison_scales(poisoned, live);
      EXPECT_EQ(attention_difference(wanted, run_stages(poisoned, kind, keep)), "")
          << name_of(kind) << " fill " << std::to_integer<int>(fill);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, Poison, testing::ValuesIn(kPoisonCases),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace zerodiff::device
