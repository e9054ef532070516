// Each class of attention faults that one call can show is found out and named.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "compare/attention_hypotheses.h"
#include "tests/compare/attention_inputs.h"
#include "tests/compare/softmax_kernel.h"

namespace zerodiff::compare {
namespace {

// What a wrong kernel leaves, from the case that it runs on. May change the case first, as long as
// the reference's stages are run again.
using Wrong = std::function<Tensor(AttentionCase& attention)>;

struct Fault {
  const char* name;
  test::CallKind kind;
  const char* id;
  Wrong run;
  float sharpness = 1.5F;
};
void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

const test::CallKind kFp8 = test::kCallKinds[3];
const test::CallKind kJoined = test::kCallKinds[6];

Wrong kernel(const SoftmaxKernel& wrong) {
  return [=](AttentionCase& attention) { return run(wrong, attention.call, attention.outputs); };
}

// A right kernel on a table, lengths, pools or scales that are not the row's.
Wrong with_inputs(const std::function<void(LayerCall&, Outputs&)>& change) {
  return [=](AttentionCase& attention) {
    LayerCall call = attention.call;
    Outputs outputs = attention.outputs;
    change(call, outputs);
    return run({.name = "", .tile = 32, .splits = 2}, call, outputs);
  };
}

Wrong with_length(std::int32_t offset) {
  return with_inputs([=](LayerCall&, Outputs& outputs) {
    for (std::int32_t& length : outputs.sparse_context_lens.as<std::int32_t>()) {
      if (length > 1) length += offset;
    }
  });
}

Wrong with_scales(float k, float v) {
  return with_inputs([=](LayerCall& call, Outputs&) {
    call.k_scale.as<float>()[0] = k;
    call.v_scale.as<float>()[0] = v;
  });
}

// Adds to the page ids of the block of rank `rank`, of all ranks if negative; a row that would
// leave the pool is left alone.
Wrong with_pages(std::int64_t rank, std::int32_t by) {
  return with_inputs([=](LayerCall& call, Outputs& outputs) {
    const auto lengths = outputs.sparse_context_lens.as<std::int32_t>();
    const auto end = static_cast<std::int32_t>(call.num_blocks() * 8 * call.config.num_kv_heads);
    for (std::size_t row = 0; row < lengths.size(); ++row) {
      const auto used = static_cast<std::size_t>((lengths[row] + 127) / 128 * 8);
      const auto ids = outputs.sparse_block_table.as<std::int32_t>().subspan(row * 24, used);
      const auto part = rank < 0    ? ids
                        : used == 0 ? ids
                                    : ids.subspan(static_cast<std::size_t>(rank * 8), 8);
      if (std::ranges::any_of(part,
                              [&](std::int32_t id) { return id + by < 0 || id + by >= end; })) {
        continue;
      }
      for (std::int32_t& id : part) id += by;
    }
  });
}

Wrong filled(std::uint16_t bits, const std::function<bool(std::int64_t row)>& rows) {
  return [=](AttentionCase& attention) {
    Tensor got = run({.name = ""}, attention.call, attention.outputs);
    const std::int64_t elements = attention.call.config.num_heads * kHeadDim;
    for (std::int64_t i = 0; i < got.size(); ++i) {
      if (rows(i / elements)) got.as<std::uint16_t>()[static_cast<std::size_t>(i)] = bits;
    }
    return got;
  };
}

Wrong nan_from_the_tail() {
  return [](AttentionCase& attention) {
    const LayerCall& call = attention.call;
    for (std::int64_t row = 0; row < 3; ++row) {
      const std::int64_t position =
          call.positions.as<std::int64_t>()[static_cast<std::size_t>(row)];
      const std::int64_t slot = test::slot_of(call, row, position + 1);
      for (std::int64_t head = 0; head < 2; ++head) {
        for (std::int64_t d = 0; d < 128; ++d) {
          test::put(test::v_pool(call, attention.outputs), test::v_element(call, slot, head, d),
                    std::numeric_limits<float>::quiet_NaN());
        }
      }
    }
    run_stages(attention);
    return filled(0x7FC0, [](std::int64_t row) { return row < 3; })(attention);
  };
}

// Every score far below -5e4.
Wrong finite_mask() {
  return [](AttentionCase& attention) {
    for (std::uint16_t& bits : attention.outputs.q.as<std::uint16_t>()) bits = 0x4300;  // 128
    for (std::uint16_t& bits : attention.outputs.k_cache.as<std::uint16_t>()) {
      bits = static_cast<std::uint16_t>(0xC300 | (bits & 0x3F));
    }
    run_stages(attention);
    return filled(0, [](std::int64_t) { return true; })(attention);
  };
}

// Entries of -1 read the block table's entry before the request's row.
Wrong sentinel_read() {
  return with_inputs([](LayerCall& call, Outputs& outputs) {
    auto ids = outputs.sparse_block_table.as<std::int32_t>();
    auto lengths = outputs.sparse_context_lens.as<std::int32_t>();
    const std::int64_t columns = call.block_table.dim(1);
    for (std::size_t row = 2; row < lengths.size(); ++row) {
      const auto used = static_cast<std::size_t>((lengths[row] + 127) / 128);
      if (used == 0 || used >= 3) continue;
      const std::size_t request = row / 2;
      const std::int32_t block =
          call.block_table.as<std::int32_t>()[request * static_cast<std::size_t>(columns) - 1];
      const auto start = ids.begin() + static_cast<std::ptrdiff_t>(row * 24);
      std::copy_backward(start, start + static_cast<std::ptrdiff_t>(used * 8), start + 24);
      for (std::size_t i = 0; i < (3 - used) * 8; ++i) {
        start[static_cast<std::ptrdiff_t>(i)] =
            static_cast<std::int32_t>((block * 8 + static_cast<std::int32_t>(i % 8)) * 2 +
                                      static_cast<std::int32_t>(row % 2));
      }
      lengths[row] += static_cast<std::int32_t>(3 - used) * 128;
    }
  });
}

Tensor read_as(const Tensor& pool, ElementType type) {
  Tensor result = Tensor::allocate(type, pool.shape());
  std::memcpy(result.bytes().data(), pool.bytes().data(), pool.size_bytes());
  return result;
}

// K as a reader of plain [token][dim] pages sees it.
void read_k_flat(LayerCall& call, Outputs& outputs) {
  const Tensor pool = outputs.k_cache;
  for (std::int64_t slot = 0; slot < call.num_slots(); ++slot) {
    for (std::int64_t head = 0; head < 2; ++head) {
      for (std::int64_t d = 0; d < 128; ++d) {
        const std::int64_t plane = (slot / 16 * 2 + head) * 2048;
        outputs.k_cache
            .as<std::uint8_t>()[static_cast<std::size_t>(test::k_element(call, slot, head, d))] =
            pool.as<std::uint8_t>()[static_cast<std::size_t>(plane + slot % 16 * 128 + d)];
      }
    }
  }
}

// Each of two kv heads gets the other's pages.
void swap_heads(LayerCall& /*call*/, Outputs& outputs) {
  for (Tensor* pool : {&outputs.k_cache, &outputs.v_cache}) {
    const auto codes = pool->as<std::uint8_t>();
    for (auto page = codes.begin(); page != codes.end(); page += 4096) {
      std::swap_ranges(page, page + 2048, page + 2048);
    }
  }
}

std::vector<Fault> faults() {
  const auto any = [](std::int64_t) { return true; };
  return {
      {"no_sm_scale", test::kBfloat16, "attn-sm-scale",
       kernel({.name = "", .scale_factor = 11.3137085F})},
      {"log2e_twice", kFp8, "attn-sm-scale", kernel({.name = "", .scale_factor = 1.442695F})},
      {"no_log2e", test::kFloat16, "attn-sm-scale",
       kernel({.name = "", .scale_factor = 0.6931472F})},
      {"no_scales", kFp8, "scale-ignored-read", with_scales(1, 1)},
      {"no_k_scale", kFp8, "scale-ignored-read", with_scales(1, 1.25F)},
      {"no_v_scale", kFp8, "scale-ignored-read", with_scales(0.6F, 1)},
      {"scales_swapped", kFp8, "scale-write-read-asymmetry", with_scales(1.25F, 0.6F)},
      {"scales_inverted", kFp8, "scale-inverted", with_scales(1 / 0.6F, 1 / 1.25F)},
      {"scores_times_k_scale", kFp8, "scale-double-applied",
       kernel({.name = "", .scale_factor = 0.6F})},
      {"read_as_fnuz", kFp8, "fp8-fn-read-as-fnuz", with_inputs([](LayerCall&, Outputs& outputs) {
         outputs.k_cache = read_as(outputs.k_cache, ElementType::float8_e4m3fnuz);
         outputs.v_cache = read_as(outputs.v_cache, ElementType::float8_e4m3fnuz);
       })},
      {"one_token_too_few", test::kBfloat16, "attn-causal-offset", with_length(-1)},
      {"one_token_too_many", kFp8, "attn-causal-offset", with_length(1)},
      {"whole_last_block", kJoined, "attn-causal-offset",
       with_inputs([](LayerCall&, Outputs& outputs) {
         for (std::int32_t& length : outputs.sparse_context_lens.as<std::int32_t>()) {
           length = (length + 127) / 128 * 128;
         }
       })},
      {"tail_in_the_denominator", test::kBfloat16, "attn-tail-unmasked",
       kernel({.name = "", .dead_in_sum = 15})},
      {"nan_from_the_tail", test::kBfloat16, "attn-v-tail-nan", nan_from_the_tail()},
      {"nan_in_empty_rows", test::kBfloat16, "attn-empty-split-nan",
       filled(0x7FC0, [](std::int64_t row) { return row == 4; })},
      {"nan_in_short_rows", test::kBfloat16, "attn-empty-split-nan",
       filled(0x7FFF, [](std::int64_t row) { return row <= 1 || row == 4; })},
      {"nan_in_long_rows", test::kBfloat16, "attn-masked-first-chunk-nan",
       filled(0x7FC0, [](std::int64_t row) { return row == 3; })},
      {"zeros_below_the_mask", test::kBfloat16, "attn-finite-inf-sentinel", finite_mask()},
      {"a_row_unwritten", test::kBfloat16, "attn-output-unwritten",
       filled(0xABAB, [](std::int64_t row) { return row == 2; })},
      {"all_unwritten", test::kFloat16, "attn-output-unwritten", filled(0, any)},
      {"fp8_weights", test::kBfloat16, "attn-fp8-p-range",
       kernel({.name = "", .p_dtype = PDtype::fp8, .p_range = 1})},
      {"a_block_replaced", kFp8, "sparse-table-page-expansion", with_pages(0, -16)},
      {"every_block_replaced", kFp8, "sparse-table-page-expansion", with_pages(-1, -16)},
      {"every_page_replaced", kFp8, "sparse-table-page-expansion", with_pages(-1, 2)},
      {"other_kv_head", kFp8, "sparse-table-page-expansion", with_inputs(swap_heads)},
      {"sentinel_read", kFp8, "topk-sentinel-deref", sentinel_read()},
      {"k_read_flat", kFp8, "kv-writer-flat-reader-shuffle", with_inputs(read_k_flat)},
  };
}

class AttentionFaults : public testing::TestWithParam<Fault> {
 protected:
  // Lengths of 17, 129, 305 and 689 tokens, and an empty row; topk 3.
  AttentionFaults()
      : attention_(random_case(GetParam().kind, 12, {16, 128, 304, 688, -1}, 4, 2,
                               GetParam().sharpness, 3)) {
    if (attention_.call.k_scale.present() && attention_.call.k_scale.size() == 1) {
      attention_.call.k_scale.as<float>()[0] = 0.6F;
      attention_.call.v_scale.as<float>()[0] = 1.25F;
      run_stages(attention_);
    }
  }
  AttentionCase attention_;
};

TEST_P(AttentionFaults, AreNamed) {
  const Tensor got = GetParam().run(attention_);
  const AttentionCheck check = attention_.check(got);
  ASSERT_FALSE(check.faulty_rows.empty());
  const Diagnosis diagnosis = diagnose_attention(attention_.call, attention_.inputs(), got,
                                                 check.faulty_rows, "path", {.threads = 1});
  EXPECT_EQ(diagnosis.id(), GetParam().id) << describe(diagnosis);
  EXPECT_EQ(diagnosis.stage, "sparse_attention");
  EXPECT_GE(diagnosis.mismatches, check.headroom.outside);
  for (const std::int64_t row : check.faulty_rows) {
    EXPECT_NE(std::find(diagnosis.tokens.begin(), diagnosis.tokens.end(), row / 2),
              diagnosis.tokens.end());
  }
}

INSTANTIATE_TEST_SUITE_P(, AttentionFaults, testing::ValuesIn(faults()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(AttentionFaultOfNoClass, IsUnexplainedAndPlaced) {
  AttentionCase attention = random_case(test::kBfloat16, 12, {16, 128, 304}, 4, 2, 1, 3);
  Tensor got = run({.name = ""}, attention.call, attention.outputs);
  // Head 1 of token 2, every other dim, off by an eighth.
  for (std::int64_t d = 0; d < 128; d += 2) {
    const std::int64_t element = (2 * 4 + 1) * 128 + d;
    test::put(got, element, test::value_at(got, element) * 1.125F + 0.25F);
  }
  const AttentionCheck check = attention.check(got);
  const Diagnosis diagnosis =
      diagnose_attention(attention.call, attention.inputs(), got, check.faulty_rows, "path", {});
  EXPECT_EQ(diagnosis.id(), "unexplained") << describe(diagnosis);
  EXPECT_EQ(diagnosis.tokens, std::vector<std::int64_t>{2});
  EXPECT_EQ(diagnosis.pattern,
            "1 of 6 rows of the table, with a partial last block, 1 of 2 heads of a group");
}

}  // namespace
}  // namespace zerodiff::compare
