// Every id of not_exercised, on and off.
#include "compare/not_exercised.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <set>
#include <string>

#include "compare/fp8_contract.h"
#include "reference/layer.h"
#include "tests/compare/small_call.h"
#include "tests/compare/tensor_bits.h"

namespace zerodiff::compare {
namespace {

std::set<std::string> ids(const LayerCall& call) {
  const Outputs outputs = reference::run_insertion(call, {}, 1);
  const Fp8ContractReport fp8 = fp8_contract_report(call, {{"reference", &outputs}}, 1);
  std::set<std::string> result;
  for (const std::string& line : not_exercised(call, fp8)) {
    const std::size_t colon = line.find(": ");
    EXPECT_NE(colon, std::string::npos) << line;
    EXPECT_GT(line.size(), colon + 20) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_TRUE(result.insert(line.substr(0, colon)).second) << line;
  }
  return result;
}

// A call that exercises everything that one call can: each case below takes one thing away.
GeneratorOptions rich_options() {
  GeneratorOptions options = small_fp8_options(ElementType::float8_e4m3fn, 1);
  options.config.kv_storage = KvStorage::block_contiguous;
  options.config.batch_mode = BatchMode::graph;
  options.config.init_blocks = 1;
  options.config.num_tokens = 40;
  options.capacity = 44;
  options.min_context = 300;
  options.with_page16_buffer = true;
  options.v_scale = 0.02F;
  return options;
}

LayerCall rich_call(const GeneratorOptions& options = rich_options()) {
  LayerCall call = generate_call(options);
  // A NaN and a few tiny values, in v of the first row.
  const std::int64_t v = (call.config.num_heads + call.config.num_kv_heads) * kHeadDim;
  for (const std::int64_t row : stored_rows(call)) {
    const std::int64_t start = row * call.config.row_elements() + v;
    set_bits(call.qkv, start, 0x7FC0);
    set_bits(call.qkv, start + 1, 0xB080);
  }
  return call;
}

void fill(Tensor& tensor, std::uint64_t bits) {
  for (std::int64_t i = 0; i < tensor.size(); ++i) set_bits(tensor, i, bits);
}

struct IdCase {
  std::string id;
  std::function<LayerCall()> call;  // of which the id is true; it is not of rich_call()
};

void PrintTo(const IdCase& c, std::ostream* out) {
  *out << c.id;
}

LayerCall changed(const std::function<void(GeneratorOptions&)>& change) {
  GeneratorOptions options = rich_options();
  change(options);
  return rich_call(options);
}

LayerCall edited(const std::function<void(LayerCall&)>& edit) {
  LayerCall call = rich_call();
  edit(call);
  return call;
}

void set_scales(LayerCall& call, float k, float v) {
  std::ranges::fill(call.k_scale.as<float>(), k);
  std::ranges::fill(call.v_scale.as<float>(), v);
}

// Every element of qkv is one value.
LayerCall with_all_values(std::uint64_t v_bits) {
  LayerCall call = generate_call(rich_options());
  fill(call.qkv, v_bits);
  set_scales(call, 0.3F, 0.3F);
  return call;
}

std::vector<IdCase> scale_cases() {
  return {
      {"unit_scales", [] { return edited([](LayerCall& c) { set_scales(c, 1, 1); }); }},
      {"equal_scales", [] { return edited([](LayerCall& c) { set_scales(c, 0.3F, 0.3F); }); }},
      {"power_of_two_scales", [] { return edited([](LayerCall& c) { set_scales(c, 0.25F, 4); }); }},
      {"uniform_scales",
       [] {
         LayerCall call = changed(
             [](GeneratorOptions& o) { o.config.scale_granularity = ScaleGranularity::head_slot; });
         set_scales(call, 0.3F, 0.7F);
         return call;
       }},
      {"no_fp8_kv_cache",
       [] { return changed([](GeneratorOptions& o) { o.config.kv_cache_dtype.reset(); }); }},
      {"no_fp8_index_cache",
       [] { return changed([](GeneratorOptions& o) { o.config.index_cache_dtype.reset(); }); }},
      {"no_saturation", [] { return with_all_values(0x3F80); }},
      {"no_top_octave", [] { return with_all_values(0x3F80); }},
      {"no_subnormal_codes", [] { return with_all_values(0); }},
      {"no_negative_underflow", [] { return with_all_values(0x3F80); }},
      {"no_nan_inputs", [] { return generate_call(rich_options()); }},
  };
}

std::vector<IdCase> row_cases() {
  return {
      {"zero_rows",
       [] {
         return edited([](LayerCall& c) {
           for (std::int64_t i = 0; i < c.config.row_elements(); ++i) {
             set_bits(c.qkv, 2 * c.config.row_elements() + i, i % 2 == 0 ? 0x8000 : 0);
           }
         });
       }},
      {"equal_norm_weights",
       [] { return edited([](LayerCall& c) { c.index_q_norm_weight = c.k_norm_weight; }); }},
      {"position_zero_only",
       [] { return edited([](LayerCall& c) { std::ranges::fill(int64s(c.positions), 0); }); }},
      {"full_rotary",
       [] { return changed([](GeneratorOptions& o) { o.config.rotary_dim = 128; }); }},
      {"no_padding_rows", [] { return changed([](GeneratorOptions& o) { o.capacity = 40; }); }},
      {"no_empty_rows", [] { return changed([](GeneratorOptions& o) { o.empty_row_share = 0; }); }},
      {"single_kv_head",
       [] {
         return changed(
             [](GeneratorOptions& o) { o.config.num_kv_heads = o.config.num_index_heads = 1; });
       }},
      {"single_request", [] { return changed([](GeneratorOptions& o) { o.num_requests = 1; }); }},
  };
}

void make_table_identity(LayerCall& call) {
  const auto table = call.block_table.as<std::int32_t>();
  const auto columns = static_cast<std::size_t>(call.block_table.dim(1));
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::int32_t>(i % columns);
}

LayerCall with_every_slot_written() {
  GeneratorOptions options = rich_options();
  options.config.batch_mode = BatchMode::eager;
  options.config.num_tokens = options.capacity = 128;
  options.num_requests = 1;
  options.min_context = options.max_context = 0;
  options.spare_blocks = 0;
  options.empty_row_share = 0;
  return generate_call(options);
}

std::vector<IdCase> pool_cases() {
  return {
      {"identity_block_table", [] { return edited(make_table_identity); }},
      {"caches_all_zero",
       [] {
         return edited([](LayerCall& c) {
           fill(c.kv_cache, 0);
           fill(c.index_cache, 0);
         });
       }},
      {"no_untouched_slots", with_every_slot_written},
      {"index_slots_equal_slots",
       [] {
         return changed([](GeneratorOptions& o) { o.config.kv_storage = KvStorage::separate; });
       }},
      {"no_graph_buffer",
       [] { return edited([](LayerCall& c) { c.page16_slot_mapping = Tensor(); }); }},
      {"no_graph_buffer", [] { return changed([](GeneratorOptions& o) { o.page16_excess = 2; }); }},
      {"no_graph_buffer",
       [] { return changed([](GeneratorOptions& o) { o.config.batch_mode = BatchMode::eager; }); }},
      {"no_attention_metadata",
       [] { return edited([](LayerCall& c) { c.block_table = Tensor(); }); }},
      {"index_branch_skipped",
       [] { return changed([](GeneratorOptions& o) { o.config.skip_index_branch = true; }); }},
      {"topk_covers_context",
       [] { return changed([](GeneratorOptions& o) { o.config.topk = 16; }); }},
      {"no_init_blocks",
       [] { return changed([](GeneratorOptions& o) { o.config.init_blocks = 0; }); }},
  };
}

class NotExercised : public testing::TestWithParam<IdCase> {};

TEST_P(NotExercised, IsListedWhereItHoldsAndNotInTheRichCall) {
  EXPECT_TRUE(ids(GetParam().call()).contains(GetParam().id));
  EXPECT_FALSE(ids(rich_call()).contains(GetParam().id));
}

std::string case_name(const testing::TestParamInfo<IdCase>& info) {
  return info.param.id + "_" + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(Scales, NotExercised, testing::ValuesIn(scale_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Rows, NotExercised, testing::ValuesIn(row_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Pools, NotExercised, testing::ValuesIn(pool_cases()), case_name);

// x = 16 only is the price of an fp8 cache: no call shows both.
TEST(NotExercisedTest, TheRichCallLacksOnlyA16BitCache) {
  EXPECT_EQ(ids(rich_call()), std::set<std::string>{"no_16bit_cache"});
  EXPECT_FALSE(ids(generate_call(small_options())).contains("no_16bit_cache"));
}

TEST(NotExercisedTest, UnitScalesNameWhichScaleIsOne) {
  const auto line = [](float k, float v) {
    const LayerCall call = edited([&](LayerCall& c) { set_scales(c, k, v); });
    for (const std::string& candidate : not_exercised(call, {})) {
      if (candidate.starts_with("unit_scales: ")) return candidate.substr(13, 22);
    }
    return std::string();
  };
  EXPECT_EQ(line(1, 1), "k_scale and v_scale ar");
  EXPECT_EQ(line(1, 2), "k_scale is 1, so a mis");
  EXPECT_EQ(line(2, 1), "v_scale is 1, so a mis");
  EXPECT_EQ(line(2, 2), "");
}

TEST(NotExercisedTest, IdsAboutCodesNeedTensors) {
  const LayerCall call = with_all_values(0x3F80);
  for (const std::string& line : not_exercised(call, {})) {
    for (const char* id :
         {"no_saturation", "no_top_octave", "no_subnormal_codes", "no_negative_underflow"}) {
      EXPECT_FALSE(line.starts_with(id)) << line;
    }
  }
}

}  // namespace
}  // namespace zerodiff::compare
