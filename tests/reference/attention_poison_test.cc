// The stages after insertion read the live tokens and nothing else: every other byte of their
// inputs may hold NaN or noise (docs/verdicts.md, poison).
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "reference/layer.h"
#include "tests/oracle/attention_difference.h"
#include "tests/reference/attention_calls.h"

namespace zerodiff::reference {
namespace {

constexpr LayerOptions kKeepAll{.threads = 1, .keep_index_score = true};

enum class Poison { nan, noise };

class Poisoner {
 public:
  Poisoner(Poison kind, std::uint64_t seed) : kind_(kind), random_(seed) {}

  // Of the same type and shape, filled; absent if `like` is.
  Tensor filled(const Tensor& like) {
    if (!like.present()) return {};
    Tensor tensor = Tensor::allocate(like.type(), like.shape());
    if (kind_ == Poison::noise) {
      for (std::byte& byte : tensor.bytes()) byte = static_cast<std::byte>(random_());
    } else {
      fill_with_nan(tensor);
    }
    return tensor;
  }

  Tensor filled_scales(const Tensor& like) {
    Tensor tensor = Tensor::allocate(like.type(), like.shape());
    for (float& scale : tensor.as<float>()) {
      scale = kind_ == Poison::nan ? std::numeric_limits<float>::quiet_NaN()
                                   : std::ldexp(1.0F, static_cast<int>(random_() % 240) - 120);
    }
    return tensor;
  }

 private:
  static void fill_with_nan(Tensor& tensor) {
    if (tensor.size() == 0) return;
    test::put(tensor, 0, std::numeric_limits<float>::quiet_NaN());
    const std::size_t size = element_size(tensor.type());
    for (std::size_t place = size; place < tensor.size_bytes(); ++place) {
      tensor.bytes()[place] = tensor.bytes()[place - size];
    }
  }

  Poison kind_;
  std::mt19937_64 random_;
};

// Elements `first`..`first + count` of a tensor, of any type.
void copy_elements(const Tensor& from, std::int64_t first, std::int64_t count, Tensor& to) {
  const auto size = static_cast<std::int64_t>(element_size(from.type()));
  const auto source = from.bytes().subspan(static_cast<std::size_t>(first * size),
                                           static_cast<std::size_t>(count * size));
  std::copy(source.begin(), source.end(), to.bytes().begin() + first * size);
}

// Takes over, element by element, what live tokens read.
class LiveElements {
 public:
  LiveElements(const LayerCall& call, const Outputs& outputs, LayerCall& poisoned_call,
               Outputs& poisoned)
      : call_(call), outputs_(outputs), poisoned_call_(poisoned_call), poisoned_(poisoned) {}

  void copy_all() {
    for (std::int64_t row = 0; row < call_.config.num_tokens; ++row) {
      if (position(row) < 0) continue;
      copy_query(outputs_.q, row, poisoned_.q);
      copy_query(outputs_.index_q, row, poisoned_.index_q);
      if (outputs_.index_cache.present()) copy_index(row);
      if (!outputs_.sparse_context_lens.present()) continue;
      for (std::int64_t head = 0; head < call_.config.num_kv_heads; ++head) copy_kv(row, head);
    }
  }

 private:
  std::int64_t position(std::int64_t row) const {
    return call_.positions.as<std::int64_t>()[static_cast<std::size_t>(row)];
  }

  static void copy_query(const Tensor& from, std::int64_t row, Tensor& to) {
    if (from.present()) copy_elements(from, row * from.dim(1), from.dim(1), to);
  }

  void copy_index(std::int64_t row) {
    const std::int64_t request = test::request_of(call_, row);
    for (std::int64_t j = 0; j <= position(row); ++j) {
      const std::int64_t slot = test::slot_of(call_, request, j);
      copy_elements(outputs_.index_cache, slot * kHeadDim, kHeadDim, poisoned_.index_cache);
    }
  }

  void copy_kv(std::int64_t row, std::int64_t head) {
    const std::int64_t table_row = row * call_.config.num_kv_heads + head;
    const std::int64_t length =
        outputs_.sparse_context_lens.as<std::int32_t>()[static_cast<std::size_t>(table_row)];
    for (std::int64_t i = 0; i < length; ++i) {
      copy_token(test::slot_in_table(call_, outputs_, row, head, i), head);
    }
  }

  void copy_token(std::int64_t slot, std::int64_t head) {
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      copy_elements(test::k_pool(call_, outputs_), test::k_element(call_, slot, head, d), 1,
                    test::k_pool(call_, poisoned_));
      copy_elements(test::v_pool(call_, outputs_), test::v_element(call_, slot, head, d), 1,
                    test::v_pool(call_, poisoned_));
    }
    if (call_.config.scale_granularity == ScaleGranularity::tensor) return;
    if (!call_.k_scale.present()) return;
    const std::int64_t scale = head * call_.num_slots() + slot;
    copy_elements(call_.k_scale, scale, 1, poisoned_call_.k_scale);
    copy_elements(call_.v_scale, scale, 1, poisoned_call_.v_scale);
  }

  const LayerCall& call_;
  const Outputs& outputs_;
  LayerCall& poisoned_call_;
  Outputs& poisoned_;
};

class AttentionPoison : public testing::TestWithParam<std::uint64_t> {};

TEST_P(AttentionPoison, WhatNoLiveTokenReadsDoesNotMatter) {
  const GeneratorOptions options = test::random_attention_options(GetParam());
  const LayerCall call = generate_call(options);
  const Outputs outputs = run_layer(call, {}, kKeepAll);
  for (const Poison kind : {Poison::nan, Poison::noise}) {
    Poisoner poisoner(kind, GetParam());
    LayerCall poisoned_call = call;
    const bool by_slot = call.config.scale_granularity == ScaleGranularity::head_slot;
    if (by_slot && call.k_scale.present()) {
      poisoned_call.k_scale = poisoner.filled_scales(call.k_scale);
      poisoned_call.v_scale = poisoner.filled_scales(call.v_scale);
    }
    Outputs poisoned;
    for (Tensor Outputs::*field : {&Outputs::q, &Outputs::index_q, &Outputs::k_cache,
                                   &Outputs::v_cache, &Outputs::kv_cache, &Outputs::index_cache}) {
      poisoned.*field = poisoner.filled(outputs.*field);
    }
    LiveElements(call, outputs, poisoned_call, poisoned).copy_all();
    run_after_insertion(poisoned_call, poisoned, kKeepAll);
    EXPECT_EQ(oracle::attention_difference(outputs, poisoned), "") << describe(options);
  }
}

INSTANTIATE_TEST_SUITE_P(Seed, AttentionPoison,
                         testing::Range<std::uint64_t>(1, 1 + ZERODIFF_ATTENTION_INVARIANCE_CALLS));

}  // namespace
}  // namespace zerodiff::reference
