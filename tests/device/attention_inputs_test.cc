// Stored inputs that stages must not run on, and the message that each of them gives.
#include <gtest/gtest.h>

#include <string>

#include "device/host/host_backend.h"
#include "fixtures/error.h"
#include "tests/device/attention_test_support.h"

namespace zerodiff::device {
namespace {

struct InputCase {
  std::string name;
  AttentionStage first_stage;
  void (*spoil)(AttentionCase&);
  std::string message;  // part of it
};

template <Tensor Outputs::*kField>
void drop(AttentionCase& of) {
  of.inserted.*kField = Tensor();
}

void narrow_scores(AttentionCase& of) {
  const LayerConfig& config = of.call.config;
  of.inserted.index_score =
      Tensor::zeros(ElementType::float32, {config.num_kv_heads, config.num_tokens, 1});
}
void select_unseen_block(AttentionCase& of) {
  of.inserted.topk_index.as<std::int32_t>()[0] = 1000;
}
void select_minus_two(AttentionCase& of) {
  of.inserted.topk_index.as<std::int32_t>()[0] = -2;
}
void name_page_past_pool(AttentionCase& of) {
  of.inserted.sparse_block_table.as<std::int32_t>()[0] = 1 << 30;
}
void name_negative_page(AttentionCase& of) {
  of.inserted.sparse_block_table.as<std::int32_t>()[0] = -1;
}
void name_v_page(AttentionCase& of) {
  const auto heads = static_cast<std::int32_t>(of.call.config.num_kv_heads);
  of.inserted.sparse_block_table.as<std::int32_t>()[0] = 8 * heads;
}
void lengthen_context(AttentionCase& of) {
  of.inserted.sparse_context_lens.as<std::int32_t>()[0] =
      static_cast<std::int32_t>(of.call.config.topk * kBlockSize + 1);
}
void transpose_q(AttentionCase& of) {
  of.inserted.q = Tensor::zeros(of.call.model_dtype(), {1, 1});
}

constexpr auto kScore = AttentionStage::index_score;
constexpr auto kTopk = AttentionStage::index_topk;
constexpr auto kTable = AttentionStage::sparse_block_table;
constexpr auto kAttention = AttentionStage::sparse_attention;

const InputCase kInputCases[] = {
    {"no_index_q", kScore, &drop<&Outputs::index_q>, "/outputs/index_q: input of index_score"},
    {"no_index_cache", kScore, &drop<&Outputs::index_cache>, "/outputs/index_cache"},
    {"no_scores", kTopk, &drop<&Outputs::index_score>, "/outputs/index_score"},
    {"too_few_scores", kTopk, &narrow_scores, "the columns of /inputs/block_table"},
    {"no_selection", kTable, &drop<&Outputs::topk_index>, "/outputs/topk_index"},
    {"unseen_block", kTable, &select_unseen_block, "found block 1000"},
    {"minus_two", kTable, &select_minus_two, "found block -2"},
    {"no_table", kAttention, &drop<&Outputs::sparse_block_table>, "/outputs/sparse_block_table"},
    {"no_lengths", kAttention, &drop<&Outputs::sparse_context_lens>,
     "/outputs/sparse_context_lens"},
    {"page_past_pool", kAttention, &name_page_past_pool, "row 0 entry 0: found 1073741824"},
    {"negative_page", kAttention, &name_negative_page, "row 0 entry 0: found -1"},
    {"v_page", kAttention, &name_v_page, "a page of the pool's K"},
    {"context_past_table", kAttention, &lengthen_context, "/outputs/sparse_context_lens: row 0"},
    {"no_q", kAttention, &drop<&Outputs::q>, "/outputs/q: input of sparse_attention"},
    {"no_caches", kAttention, &drop<&Outputs::kv_cache>, "/outputs/kv_cache"},
    {"q_of_another_shape", kAttention, &transpose_q, "/outputs/q"},
};

class StoredInputs : public testing::TestWithParam<InputCase> {};

TEST_P(StoredInputs, AreRejectedInOneLine) {
  GeneratorOptions options = attention_options(4, 2, 61);
  options.config.kv_storage = KvStorage::block_contiguous;
  AttentionCase of = attention_case(options);
  const Outputs made = run_stages(of, PathKind::fused, {.keep_index_score = true});
  for (const OutputField& field : kOutputFields) {
    const Tensor& tensor = made.*field.tensor;
    if (tensor.present()) of.inserted.*field.tensor = tensor;
  }
  GetParam().spoil(of);
  HostBackend backend({.threads = 1});
  for (const PathKind kind : kPathKinds) {
    try {
      run_attention_stages(of.call, of.inserted, kind, backend,
                           {.first_stage = GetParam().first_stage});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Spoiled, StoredInputs, testing::ValuesIn(kInputCases),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace zerodiff::device
