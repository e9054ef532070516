// Attention whose exact result is known. With C = 1 and whole scores every weight is a power of
// two, so that all sums are exact in any order: what is tested are places (pages, layouts, heads,
// scales, tails), weights and the merge. Beside it the textbook's closed forms.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/device/attention_test_support.h"

namespace zerodiff::device {
namespace {

// RN(kUnitScale * log2(e)) is 1.
constexpr float kUnitScale = 0x1.62e43p-1F;
static_assert(kUnitScale * 0x1.715476p+0F == 1.0F);

struct FormCase {
  std::string name;
  std::int64_t heads;
  std::int64_t kv_heads;
  ElementType model_dtype;
  std::optional<ElementType> cache_dtype;
  KvStorage storage = KvStorage::separate;
  ScaleGranularity granularity = ScaleGranularity::tensor;
  std::int64_t tokens = 3;
  std::int64_t max_context = 420;
};

constexpr auto kBf16 = ElementType::bfloat16;
constexpr auto kFp16 = ElementType::float16;
constexpr auto kContiguous = KvStorage::block_contiguous;
constexpr auto kHeadSlot = ScaleGranularity::head_slot;

const FormCase kFormCases[] = {
    {"bf16_16_heads", 16, 1, kBf16, std::nullopt},
    {"bf16_one_position", 1, 1, kBf16, std::nullopt, KvStorage::separate, ScaleGranularity::tensor,
     1, 0},
    {"fp16_contiguous_group_3", 9, 3, kFp16, std::nullopt, kContiguous},
    {"fp16_group_of_19", 38, 2, kFp16, std::nullopt},
    {"e4m3fn_tensor_scale", 8, 1, kBf16, ElementType::float8_e4m3fn},
    {"e4m3fn_head_slot", 12, 2, kBf16, ElementType::float8_e4m3fn, KvStorage::separate, kHeadSlot},
    {"e4m3fnuz_contiguous_head_slot", 5, 5, kFp16, ElementType::float8_e4m3fnuz, kContiguous,
     kHeadSlot},
    {"e5m2_contiguous", 16, 8, kBf16, ElementType::float8_e5m2, kContiguous},
    {"e5m2fnuz_head_slot", 14, 2, kFp16, ElementType::float8_e5m2fnuz, KvStorage::separate,
     kHeadSlot},
};

GeneratorOptions form_options(const FormCase& of) {
  GeneratorOptions options = attention_options(of.heads, of.kv_heads, 11);
  options.model_dtype = of.model_dtype;
  options.config.kv_cache_dtype = of.cache_dtype;
  options.config.kv_storage = of.storage;
  options.config.scale_granularity = of.granularity;
  options.config.sm_scale = kUnitScale;
  options.config.num_tokens = of.tokens;
  options.max_context = of.max_context;
  options.k_scale = 0.25F;
  options.v_scale = 0.5F;
  return options;
}

// Scales of powers of two, so that quantising whole numbers is exact.
void round_scales(AttentionCase& of) {
  for (Tensor* scales : {&of.call.k_scale, &of.call.v_scale}) {
    if (!scales->present()) continue;
    for (float& scale : scales->as<float>()) scale = std::exp2(std::rint(std::log2(scale)));
  }
}

double scale_of(const AttentionCase& of, const Tensor& scales, std::int64_t head,
                std::int64_t slot) {
  if (!of.call.config.kv_cache_dtype) return 1;
  const bool one = of.call.config.scale_granularity == ScaleGranularity::tensor;
  const std::int64_t place = one ? 0 : head * of.call.num_slots() + slot;
  return scales.as<float>()[static_cast<std::size_t>(place)];
}

// Whole numbers that stand for q, k and v, by place; the same wherever they are looked up.
std::int64_t small_number(std::uint64_t salt, std::int64_t a, std::int64_t b, std::int64_t c,
                          std::int64_t most) {
  std::uint64_t hash = salt + static_cast<std::uint64_t>((a * 1'000'003 + b) * 1021 + c);
  for (int round = 0; round < 2; ++round) {
    hash = (hash ^ hash >> 29) * 0x9E3779B97F4A7C15U;
  }
  const auto range = static_cast<std::uint64_t>(2 * most + 1);
  return static_cast<std::int64_t>((hash >> 33) % range) - most;
}
// q is 1 in one dim of a head, and k whole: a score is an element of k.
std::int64_t query_dim(std::int64_t row, std::int64_t head) {
  return (row * 31 + head * 7) % kHeadDim;
}
std::int64_t k_number(std::int64_t head, std::int64_t slot, std::int64_t dim) {
  return small_number(1, head, slot, dim, 5);
}
std::int64_t v_number(std::int64_t head, std::int64_t slot, std::int64_t dim) {
  return small_number(2, head, slot, dim, 4);
}

void fill_form(AttentionCase& of) {
  const LayerConfig& config = of.call.config;
  round_scales(of);
  for (std::int64_t row = 0; row < config.num_tokens; ++row) {
    for (std::int64_t h = 0; h < config.num_heads; ++h) set_q(of, row, h, query_dim(row, h), 1);
  }
  for (std::int64_t slot = 0; slot < of.call.num_slots(); ++slot) {
    for (std::int64_t h = 0; h < config.num_kv_heads; ++h) {
      const double k_scale = scale_of(of, of.call.k_scale, h, slot);
      const double v_scale = scale_of(of, of.call.v_scale, h, slot);
      for (std::int64_t d = 0; d < kHeadDim; ++d) {
        set_kv(of, Plane::k, slot, h, d, static_cast<double>(k_number(h, slot, d)) / k_scale);
        set_kv(of, Plane::v, slot, h, d, static_cast<double>(v_number(h, slot, d)) / v_scale);
      }
    }
  }
}

// Slots that a row attends to, from its selection.
std::vector<std::int64_t> attended_slots(const AttentionCase& of, const Outputs& outputs,
                                         std::int64_t row, std::int64_t kv_head) {
  const LayerConfig& config = of.call.config;
  const std::int64_t position = of.call.positions.as<std::int64_t>()[static_cast<std::size_t>(row)];
  const auto selection = outputs.topk_index.as<std::int32_t>();
  std::vector<std::int64_t> slots;
  for (std::int64_t i = 0; i < config.topk; ++i) {
    const std::int64_t place = (kv_head * config.num_tokens + row) * config.topk + i;
    const std::int64_t block = selection[static_cast<std::size_t>(place)];
    if (block < 0) continue;
    for (std::int64_t j = block * kBlockSize; j < (block + 1) * kBlockSize && j <= position; ++j) {
      slots.push_back(slot_of(of.call, request_of(of.call, row), j));
    }
  }
  return slots;
}

// The exact quotient of exact sums, rounded to binary32 and to the model dtype.
float wanted_output(const AttentionCase& of, const std::vector<std::int64_t>& slots,
                    std::int64_t row, std::int64_t head, std::int64_t dim) {
  const std::int64_t kv_head = head / (of.call.config.num_heads / of.call.config.num_kv_heads);
  const auto score = [&](std::int64_t slot) {
    return k_number(kv_head, slot, query_dim(row, head));
  };
  std::int64_t most = std::numeric_limits<std::int64_t>::min();
  for (const std::int64_t slot : slots) most = std::max(most, score(slot));
  double sum = 0;
  double weighted = 0;
  for (const std::int64_t slot : slots) {
    const double weight = std::ldexp(1.0, static_cast<int>(score(slot) - most));
    sum += weight;
    weighted += weight * static_cast<double>(v_number(kv_head, slot, dim));
  }
  const float quotient = static_cast<float>(weighted) / static_cast<float>(sum);
  return model_value(of.call.model_dtype(), bits_of(of.call.model_dtype(), quotient));
}

void expect_form(const AttentionCase& of, const Outputs& outputs) {
  const LayerConfig& config = of.call.config;
  const std::int64_t group = config.num_heads / config.num_kv_heads;
  for (std::int64_t row = 0; row < config.num_tokens; ++row) {
    for (std::int64_t head = 0; head < config.num_heads; ++head) {
      const auto slots = attended_slots(of, outputs, row, head / group);
      for (std::int64_t dim = head % 5; dim < kHeadDim; dim += 9) {
        ASSERT_EQ(output_at(of.call, outputs, row, head, dim),
                  wanted_output(of, slots, row, head, dim))
            << "row " << row << " head " << head << " dim " << dim;
      }
    }
  }
}

class PowersOfTwo : public testing::TestWithParam<FormCase> {};

TEST_P(PowersOfTwo, GiveTheExactOutput) {
  AttentionCase of = zero_case(form_options(GetParam()));
  fill_form(of);
  for (const PathKind kind : kPathKinds) {
    SCOPED_TRACE(name_of(kind));
    expect_form(of, run_stages(of, kind));
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, PowersOfTwo, testing::ValuesIn(kFormCases),
                         [](const auto& each) { return each.param.name; });

AttentionCase uniform_case() {
  GeneratorOptions options = attention_options(6, 2);
  options.config.num_tokens = 1;
  options.min_context = options.max_context = 290;
  return attention_case(options);
}

TEST(ClosedForms, AQueryOfZeroGivesTheMean) {
  AttentionCase of = uniform_case();
  std::ranges::fill(of.inserted.q.bytes(), std::byte{0});
  for (std::int64_t slot = 0; slot < of.call.num_slots(); ++slot) {
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      set_kv(of, Plane::v, slot, 1, d, static_cast<double>(v_number(1, slot, d)));
    }
  }
  for (const PathKind kind : kPathKinds) {
    const Outputs outputs = run_stages(of, kind);
    const auto slots = attended_slots(of, outputs, 0, 1);
    ASSERT_EQ(slots.size(), 291U);
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      double sum = 0;
      for (const std::int64_t slot : slots) sum += static_cast<double>(v_number(1, slot, d));
      const float mean = static_cast<float>(sum) / 291.0F;
      EXPECT_EQ(output_at(of.call, outputs, 0, 4, d),
                model_value(ElementType::bfloat16, bits_of(ElementType::bfloat16, mean)));
    }
  }
}

// Equal keys, whatever they are: each weight is exactly 1.
TEST(ClosedForms, ValuesOfOneGiveOne) {
  AttentionCase of = uniform_case();
  for (std::int64_t slot = 0; slot < of.call.num_slots(); ++slot) {
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      set_kv(of, Plane::k, slot, 0, d, 0.37 * static_cast<double>(d) - 20);
      set_kv(of, Plane::v, slot, 0, d, 1);
    }
  }
  for (const PathKind kind : kPathKinds) {
    const Outputs outputs = run_stages(of, kind);
    for (std::int64_t head = 0; head < 3; ++head) {
      for (std::int64_t d = 0; d < kHeadDim; ++d) {
        EXPECT_EQ(output_at(of.call, outputs, 0, head, d), 1.0F) << name_of(kind);
      }
    }
  }
}

TEST(ClosedForms, OneLiveTokenGivesItsValues) {
  GeneratorOptions options = attention_options(4, 1);
  options.config.num_tokens = 1;
  options.max_context = 0;
  AttentionCase of = attention_case(options);
  const std::int64_t slot = slot_of(of.call, 0, 0);
  for (std::int64_t d = 0; d < kHeadDim; ++d) {
    set_kv(of, Plane::v, slot, 0, d, d % 2 == 0 ? -1.5 * static_cast<double>(d) : 0x1p-130);
  }
  for (const PathKind kind : kPathKinds) {
    const Outputs outputs = run_stages(of, kind);
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      EXPECT_EQ(output_at(of.call, outputs, 0, 3, d),
                d % 2 == 0 ? -1.5F * static_cast<float>(d) : 0x1p-130F);
    }
  }
}

}  // namespace
}  // namespace zerodiff::device
