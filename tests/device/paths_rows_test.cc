// Rows are independent of each other, and what single rows must come out as in closed form.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "device/host/host_backend.h"
#include "tests/device/paths_test_support.h"

namespace zerodiff::device {
namespace {

Tensor rows_of(const Tensor& tensor, const std::vector<std::int64_t>& rows) {
  Shape shape = tensor.shape();
  const std::size_t bytes = tensor.size_bytes() / static_cast<std::size_t>(shape[0]);
  shape[0] = static_cast<std::int64_t>(rows.size());
  Tensor picked = Tensor::allocate(tensor.type(), shape);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::ranges::copy(tensor.bytes().subspan(static_cast<std::size_t>(rows[i]) * bytes, bytes),
                      picked.bytes().subspan(i * bytes, bytes).begin());
  }
  return picked;
}

// The call with these rows, in this order, all of them scheduled; without a slot buffer.
LayerCall with_rows(const LayerCall& call, const std::vector<std::int64_t>& rows) {
  LayerCall picked = call;
  picked.config.num_tokens = static_cast<std::int64_t>(rows.size());
  picked.qkv = rows_of(call.qkv, rows);
  picked.positions = rows_of(call.positions, rows);
  picked.slot_mapping = rows_of(call.slot_mapping, rows);
  if (call.index_slot_mapping.present()) {
    picked.index_slot_mapping = rows_of(call.index_slot_mapping, rows);
  }
  picked.page16_slot_mapping = Tensor();
  return picked;
}

class Rows : public testing::TestWithParam<NamedCall> {};

TEST_P(Rows, InAnotherOrderGiveTheSameBytes) {
  const LayerCall call = GetParam().make();
  std::vector<std::int64_t> backwards;
  for (std::int64_t t = call.config.num_tokens - 1; t >= 0; --t) backwards.push_back(t);
  std::vector<std::int64_t> forwards(backwards.rbegin(), backwards.rend());
  HostBackend backend({.wave_width = 32, .threads = 1});
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    const LayerCall batch = with_rows(call, forwards);
    const LayerCall reversed = with_rows(call, backwards);
    Outputs wanted = run_without_faults(batch, kind, backend);
    const Outputs outputs = run_without_faults(reversed, kind, backend);
    wanted.q = rows_of(wanted.q, backwards);
    if (wanted.index_q.present()) wanted.index_q = rows_of(wanted.index_q, backwards);
    EXPECT_EQ(first_difference(reversed, wanted, outputs), "") << name_of(kind);
  }
}

TEST_P(Rows, AloneGiveTheSameBytesAsInTheBatch) {
  const LayerCall call = GetParam().make();
  std::vector<std::int64_t> all;
  for (std::int64_t t = 0; t < call.config.num_tokens; ++t) all.push_back(t);
  LayerCall one_by_one = with_rows(call, all);
  HostBackend backend({.wave_width = 64, .threads = 1});
  const Outputs wanted = run_without_faults(one_by_one, PathKind::fused, backend);
  for (const std::int64_t t : all) {
    const LayerCall alone = with_rows(one_by_one, {t});
    Outputs outputs = run_without_faults(alone, PathKind::fused, backend);
    EXPECT_TRUE(identical(outputs.q, rows_of(wanted.q, {t}))) << "row " << t;
    // What one row stored is what the next one finds.
    one_by_one.k_cache = std::move(outputs.k_cache);
    one_by_one.v_cache = std::move(outputs.v_cache);
    one_by_one.kv_cache = std::move(outputs.kv_cache);
    if (outputs.index_cache.present()) one_by_one.index_cache = std::move(outputs.index_cache);
  }
  EXPECT_TRUE(identical(one_by_one.k_cache, wanted.k_cache));
  EXPECT_TRUE(identical(one_by_one.v_cache, wanted.v_cache));
  EXPECT_TRUE(identical(one_by_one.kv_cache, wanted.kv_cache));
  if (wanted.index_cache.present()) {
    EXPECT_TRUE(identical(one_by_one.index_cache, wanted.index_cache));
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, Rows, testing::ValuesIn(named_calls()),
                         [](const auto& each) { return each.param.name; });

// One bfloat16 row at position 0 of a table whose row is (1, 0): RoPE is the identity.
LayerCall one_row_call() {
  NamedCall named;
  for (const NamedCall& each : named_calls()) {
    if (each.name == "bf16_prefill") named = each;
  }
  return with_rows(named.make(), {0});
}

void fill_weights(LayerCall& call, std::uint16_t bits) {
  for (Tensor* weight : {&call.q_norm_weight, &call.k_norm_weight, &call.index_q_norm_weight,
                         &call.index_k_norm_weight}) {
    std::ranges::fill(weight->as<std::uint16_t>(), bits);
  }
}

TEST(ClosedForm, HeadsOfEqualElementsAreNormedToOne) {
  LayerCall call = one_row_call();
  fill_weights(call, 0);
  call.positions.as<std::int64_t>()[0] = 0;
  std::ranges::fill(call.qkv.as<std::uint16_t>(), std::uint16_t{0x4080});  // 4.0
  HostBackend backend;
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    const Outputs outputs = run_without_faults(call, kind, backend);
    for (const std::uint16_t bits : outputs.q.as<std::uint16_t>()) EXPECT_EQ(bits, 0x3F80);
    for (const std::uint16_t bits : outputs.index_q.as<std::uint16_t>()) EXPECT_EQ(bits, 0x3F80);
  }
}

TEST(ClosedForm, NegativePositionsCountAsPositionZero) {
  LayerCall zero = one_row_call();
  zero.positions.as<std::int64_t>()[0] = 0;
  zero.slot_mapping.as<std::int64_t>()[0] = -1;
  zero.index_slot_mapping.as<std::int64_t>()[0] = -1;
  LayerCall negative = zero;
  negative.positions.as<std::int64_t>()[0] = -5;
  // A table of other positions only: position 0 then is the identity.
  LayerCall sparse = negative;
  sparse.cos_sin_rows = Tensor::allocate(ElementType::int64, {1});
  sparse.cos_sin_rows.as<std::int64_t>()[0] = 77;
  sparse.cos_sin_cache = rows_of(zero.cos_sin_cache, {1});
  HostBackend backend;
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    const Outputs wanted = run_without_faults(zero, kind, backend);
    EXPECT_EQ(first_difference(zero, wanted, run_without_faults(negative, kind, backend)), "");
    EXPECT_EQ(first_difference(zero, wanted, run_without_faults(sparse, kind, backend)), "");
  }
}

TEST(ClosedForm, VIsCopiedBitByBitNanPayloadsIncluded) {
  LayerCall call = one_row_call();
  const auto first = static_cast<std::size_t>((call.config.num_heads + 1) * kHeadDim);
  const auto v = call.qkv.as<std::uint16_t>().subspan(first, kHeadDim);
  for (std::size_t d = 0; d < v.size(); ++d) v[d] = static_cast<std::uint16_t>(0xFF81 + d % 100);
  call.slot_mapping.as<std::int64_t>()[0] = 5;
  HostBackend backend;
  for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
    const Outputs outputs = run_without_faults(call, kind, backend);
    const auto stored = outputs.v_cache.as<std::uint16_t>();
    for (std::size_t d = 0; d < v.size(); ++d) EXPECT_EQ(stored[d * 8 + 5], v[d]) << d;
  }
}

}  // namespace
}  // namespace zerodiff::device
