// reference/layer.h: which stages run, on what, and what they leave (docs/capture-format.md).
#include "reference/layer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fixtures/layer_call_checks.h"
#include "tests/oracle/attention_difference.h"
#include "tests/oracle/attention_oracle.h"
#include "tests/reference/attention_calls.h"

namespace zerodiff::reference {
namespace {

constexpr LayerOptions kKeepAll{.threads = 1, .keep_index_score = true};

GeneratorOptions prefill_options() {
  GeneratorOptions options;
  options.seed = 21;
  options.config = test::plain_config(4, 2);
  options.config.phase = Phase::prefill;
  options.config.num_tokens = 9;
  options.config.topk = 3;
  options.num_requests = 3;
  options.max_context = 700;
  options.capacity = 12;
  return options;
}

std::vector<std::string> names_of(const Outputs& outputs) {
  std::vector<std::string> names;
  for (const OutputField& field : kOutputFields) {
    if ((outputs.*field.tensor).present()) names.emplace_back(field.name);
  }
  return names;
}

using Names = std::vector<std::string>;
const Names kInsertion{"q", "index_q", "k_cache", "v_cache", "index_cache"};

Names insertion_and(const Names& others) {
  Names names = kInsertion;
  names.insert(names.end(), others.begin(), others.end());
  return names;
}

TEST(Layer, ACallWithoutAttentionMetadataStopsAfterInsertion) {
  for (Tensor LayerCall::*missing :
       {&LayerCall::block_table, &LayerCall::seq_lens, &LayerCall::query_start_loc}) {
    LayerCall call = generate_call(prefill_options());
    call.*missing = Tensor();
    EXPECT_FALSE(has_selection(call));
    EXPECT_EQ(names_of(run_layer(call, {}, kKeepAll)), kInsertion);
  }
}

TEST(Layer, IndexScoresAreKeptOnRequestOnly) {
  const LayerCall call = generate_call(prefill_options());
  const Names table_on{"topk_index", "sparse_block_table", "sparse_context_lens", "attn_output"};
  EXPECT_TRUE(has_selection(call));
  EXPECT_EQ(names_of(run_layer(call)), insertion_and(table_on));
  Names all = insertion_and(table_on);
  all.emplace_back("index_score");
  EXPECT_EQ(names_of(run_layer(call, {}, kKeepAll)), all);
}

TEST(Layer, OutputsHaveTheShapesThatTheCallImplies) {
  const LayerCall call = generate_call(prefill_options());
  const Outputs outputs = run_layer(call, {}, kKeepAll);
  EXPECT_NO_THROW(check_outputs(call, outputs, "/outputs/reference"));
  EXPECT_EQ(outputs.attn_output.shape(), (Shape{9, 4, 128}));
  EXPECT_EQ(outputs.index_score.shape(), (Shape{2, 9, call.block_table.dim(1)}));
}

TEST(Layer, StagesAfterInsertionReadThePathsOwnQAndCaches) {
  const LayerCall call = generate_call(prefill_options());
  const Outputs whole = run_layer(call, {}, kKeepAll);
  Outputs path = run_insertion(call);
  run_after_insertion(call, path, kKeepAll);
  EXPECT_EQ(oracle::attention_difference(whole, path), "");
  for (std::int64_t i = 0; i < path.v_cache.size(); ++i) test::put(path.v_cache, i, 2);
  for (std::int64_t i = 0; i < path.index_q.size(); ++i) test::put(path.index_q, i, 0);
  run_after_insertion(call, path, kKeepAll);
  EXPECT_EQ(oracle::attention_difference(oracle::run_attention(call, path), path), "");
  EXPECT_NE(oracle::tensor_difference("", whole.index_score, path.index_score), "");
  EXPECT_NE(oracle::tensor_difference("", whole.attn_output, path.attn_output), "");
}

TEST(Layer, WithoutTheIndexBranchASelectionIsReused) {
  for (const test::CallKind& kind : test::kCallKinds) {
    GeneratorOptions options = prefill_options();
    test::apply(kind, options);
    options.config.skip_index_branch = true;
    const LayerCall call = generate_call(options);
    ASSERT_TRUE(call.topk_index.present());
    const Outputs got = run_layer(call, {}, kKeepAll);
    EXPECT_EQ(oracle::attention_difference(oracle::run_attention(call, got), got), "") << kind.name;
    EXPECT_TRUE(got.attn_output.present()) << kind.name;
    EXPECT_FALSE(got.index_score.present() || got.index_q.present() || got.index_cache.present());
  }
}

// The reused selection is taken as it is, whatever the scores would have said.
TEST(Layer, AReusedSelectionDecidesWhatIsRead) {
  test::CallShape shape;
  shape.config = test::plain_config(1, 1);
  shape.config.topk = 2;
  shape.config.skip_index_branch = true;
  shape.positions = {700};
  shape.pool_blocks = 7;
  LayerCall call = test::decode_call(shape);
  Outputs outputs = test::zero_insertion(call);
  for (std::int64_t block = 0; block < 6; ++block) {
    for (std::int64_t j = block * 128; j < block * 128 + 128; ++j) {
      const std::int64_t slot = test::slot_of(call, 0, j);
      test::put(outputs.v_cache, test::v_element(call, slot, 0, 0), static_cast<float>(block));
    }
  }
  const auto output_for = [&](std::int32_t first, std::int32_t second) {
    call.topk_index = test::int32_tensor({1, 1, 2}, {first, second});
    run_after_insertion(call, outputs, kKeepAll);
    return test::value_at(outputs.attn_output, 0);
  };
  EXPECT_EQ(output_for(1, -1), 1);
  EXPECT_EQ(output_for(4, 2), 3);
  EXPECT_EQ(output_for(3, 1), 2);
  EXPECT_EQ(output_for(5, -1), 5);
}

TEST(Layer, WithoutTheIndexBranchAndWithoutASelectionThereIsNoAttention) {
  GeneratorOptions options = prefill_options();
  options.config.skip_index_branch = true;
  LayerCall call = generate_call(options);
  call.topk_index = Tensor();
  EXPECT_FALSE(has_selection(call));
  EXPECT_EQ(names_of(run_layer(call, {}, kKeepAll)), (Names{"q", "k_cache", "v_cache"}));
}

// Requests of no tokens at all stand before, between and after the others.
TEST(Layer, RequestsOfLengthZero) {
  LayerCall call = generate_call(prefill_options());
  const Outputs whole = run_layer(call, {}, kKeepAll);
  const std::vector<std::int32_t> starts = test::elements_of(call.query_start_loc);
  const std::vector<std::int32_t> lens = test::elements_of(call.seq_lens);
  const std::vector<std::int32_t> contexts = test::elements_of(call.context_lens);
  call.query_start_loc =
      test::int32_tensor({7}, {0, 0, starts[1], starts[1], starts[2], starts[3], starts[3]});
  call.seq_lens = test::int32_tensor({6}, {0, lens[0], 0, lens[1], lens[2], 0});
  call.context_lens = test::int32_tensor({6}, {0, contexts[0], 0, contexts[1], contexts[2], 0});
  const std::vector<std::int32_t> table = test::elements_of(call.block_table);
  const auto columns = static_cast<std::size_t>(call.block_table.dim(1));
  std::vector<std::int32_t> wider;
  for (const int row : {-1, 0, -1, 1, 2, -1}) {
    for (std::size_t c = 0; c < columns; ++c) {
      wider.push_back(row < 0 ? INT32_MAX : table[static_cast<std::size_t>(row) * columns + c]);
    }
  }
  call.block_table = test::int32_tensor({6, static_cast<std::int64_t>(columns)}, wider);
  EXPECT_NO_THROW(check_layer_call(call));
  EXPECT_EQ(oracle::attention_difference(whole, run_layer(call, {}, kKeepAll)), "");
}

TEST(Layer, NoScheduledTokens) {
  GeneratorOptions options = prefill_options();
  options.config.num_tokens = 0;
  options.config.batch_mode = BatchMode::graph;
  const LayerCall call = generate_call(options);
  const Outputs outputs = run_layer(call, {}, kKeepAll);
  EXPECT_EQ(outputs.attn_output.shape(), (Shape{0, 4, 128}));
  EXPECT_EQ(outputs.topk_index.shape(), (Shape{2, 0, 3}));
  EXPECT_EQ(outputs.sparse_context_lens.shape(), (Shape{0}));
  EXPECT_EQ(outputs.q.shape(), (Shape{12, 512}));
}

// Padding rows have no scores, selection or attention, whatever their positions.
TEST(Layer, PaddingRowsChangeNothing) {
  LayerCall call = generate_call(prefill_options());
  const Outputs before = run_layer(call, {}, kKeepAll);
  const auto positions = call.positions.as<std::int64_t>();
  positions[9] = 0;
  positions[10] = positions[0];
  positions[11] = -1;
  EXPECT_EQ(oracle::attention_difference(before, run_layer(call, {}, kKeepAll)), "");
}

TEST(Layer, HandMadeCallsOfTheseTestsAreValid) {
  for (const test::CallKind& kind : test::kCallKinds) {
    test::CallShape shape;
    shape.config = test::plain_config(6, 3);
    shape.kind = kind;
    shape.positions = {-1, 0, 127, 128, INT64_MIN, 5000};
    shape.pool_blocks = 9;
    const LayerCall call = test::decode_call(shape);
    EXPECT_NO_THROW(check_layer_call(call)) << kind.name;
    EXPECT_NO_THROW(check_outputs(call, test::zero_insertion(call), "zeros")) << kind.name;
  }
}

TEST(Layer, RandomCallsOfTheseTestsAreValid) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const GeneratorOptions options = test::random_attention_options(seed);
    EXPECT_NO_THROW(check_layer_call(generate_call(options))) << describe(options);
  }
}

}  // namespace
}  // namespace zerodiff::reference
