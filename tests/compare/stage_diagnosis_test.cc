// Each class of faults of scores, selections and tables that one call can show is found out, named
// and placed at its stage.
#include "compare/stage_diagnosis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "compare/score_formulas.h"
#include "reference/index_topk.h"
#include "tests/compare/attention_inputs.h"

namespace zerodiff::compare {
namespace {

// What a wrong kernel leaves in `path`, which starts as the reference's outputs. May change the
// case first, as long as the reference's stages are run again.
using Wrong = std::function<void(AttentionCase& attention, Outputs& path)>;

struct Fault {
  const char* name;
  const char* stage;
  const char* id;
  Wrong change;
};
void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

void select(const LayerCall& call, const Tensor& scores, Outputs& path) {
  path.topk_index = reference::index_topk(call, scores);
}

Wrong by_formula(std::size_t formula) {
  return [=](AttentionCase& attention, Outputs& path) {
    select(attention.call,
           scores_by(attention.call, path.index_q, path.index_cache, score_formulas()[formula]),
           path);
  };
}

Wrong with_ids(const std::function<void(std::span<std::int32_t> ids)>& change) {
  return [=](AttentionCase&, Outputs& path) { change(path.topk_index.as<std::int32_t>()); };
}

Wrong with_table(const std::function<void(std::span<std::int32_t> ids)>& change) {
  return [=](AttentionCase&, Outputs& path) { change(path.sparse_block_table.as<std::int32_t>()); };
}

Wrong with_scores(const std::function<void(const LayerCall&, std::span<float>)>& change) {
  return [=](AttentionCase& attention, Outputs& path) {
    change(attention.call, path.index_score.as<float>());
  };
}

void transpose(AttentionCase& attention, Outputs& path) {
  const auto right = attention.outputs.topk_index.as<std::int32_t>();
  auto wrong = path.topk_index.as<std::int32_t>();
  for (std::size_t row = 0; row < 12; ++row) {  // written as [6 tokens][2 heads]
    std::copy_n(right.begin() + static_cast<std::ptrdiff_t>((row % 2 * 6 + row / 2) * 3), 3,
                wrong.begin() + static_cast<std::ptrdiff_t>(row * 3));
  }
}

void unforced(AttentionCase& attention, Outputs& path) {
  LayerCall call = attention.call;
  call.config.local_blocks = 0;
  select(call, path.index_score, path);
}

void nan_first(AttentionCase& attention, Outputs& path) {
  for (std::int64_t j = 0; j < 128; ++j) {
    const std::int64_t slot = test::slot_of(attention.call, 3, j);
    for (std::int64_t d = 0; d < 128; ++d) {
      test::put(attention.outputs.index_cache, slot * 128 + d, std::nanf(""));
    }
  }
  run_stages(attention);
  path = attention.outputs;
  Tensor scores = path.index_score;
  for (float& score : scores.as<float>()) score = std::isnan(score) ? 1e30F : score;
  select(attention.call, scores, path);
}

void first_eight_blocks(AttentionCase& attention, Outputs& path) {
  Tensor scores = path.index_score;
  const auto blocks = static_cast<std::size_t>(scores.dim(2));
  for (std::size_t i = 0; i < scores.as<float>().size(); ++i) {
    if (i % blocks >= 8) scores.as<float>()[i] = -1e20F;
  }
  select(attention.call, scores, path);
}

std::vector<Fault> score_faults() {
  return {
      {"mean", "index_score", "index-score-formula",
       [](AttentionCase& attention, Outputs& path) {
         path.index_score =
             scores_by(attention.call, path.index_q, path.index_cache, score_formulas()[0]);
       }},
      {"forced_numbers", "index_score", "index-score-formula",
       with_scores([](const LayerCall&, std::span<float> scores) { scores[0] = 1e29F; })},
      {"cliff", "index_score", "index-score-length-cliff",
       with_scores([](const LayerCall& call, std::span<float> scores) {
         const auto blocks = static_cast<std::size_t>(call.block_table.dim(1));
         for (std::size_t i = 0; i < scores.size(); ++i) {
           if (i % blocks >= 8) scores[i] = -std::numeric_limits<float>::infinity();
         }
       })},
      {"nan", "index_score", "topk-nonfinite-scores",
       with_scores([](const LayerCall&, std::span<float> scores) { scores[0] = std::nanf(""); })},
  };
}

std::vector<Fault> selection_faults() {
  return {
      {"select_by_mean", "index_topk", "index-score-formula", by_formula(0)},
      {"select_by_first_dot", "index_topk", "index-score-formula", by_formula(2)},
      {"select_within_eight_blocks", "index_topk", "index-score-length-cliff", first_eight_blocks},
      {"transposed", "index_topk", "topk-layout-transposed", transpose},
      {"local_block_not_forced", "index_topk", "topk-forced-block-missing", unforced},
      {"nan_above_all", "index_topk", "topk-nonfinite-scores", nan_first},
      {"better_block_dropped", "index_topk", "topk-candidate-overflow",
       [](AttentionCase& attention, Outputs& path) {
         // The last token of head 1: the best block but the own one is not among its ids.
         auto ids = path.topk_index.as<std::int32_t>().subspan(10 * 3, 3);
         const std::int64_t own = 1500 / 128;
         const auto best = std::ranges::find_if(ids, [&](std::int32_t id) { return id != own; });
         for (std::int32_t id = 0; id < own; ++id) {
           if (std::ranges::find(ids, id) == ids.end()) {
             *best = id;
             break;
           }
         }
         static_cast<void>(attention);
       }},
      {"sentinel_in_the_prefix", "index_topk", "topk-invalid-in-prefix",
       with_ids([](std::span<std::int32_t> ids) { ids[4 * 3 + 1] = -1; })},
      {"duplicate", "index_topk", "topk-invalid-in-prefix",
       with_ids([](std::span<std::int32_t> ids) { ids[4 * 3 + 1] = ids[4 * 3]; })},
      {"ids_past_the_row", "index_topk", "topk-k-exceeds-n",
       with_ids([](std::span<std::int32_t> ids) { ids[1] = 1; })},
      {"selection_of_the_token_before", "index_topk", "topk-stale-reuse",
       [](AttentionCase& attention, Outputs& path) {
         const auto right = attention.outputs.topk_index.as<std::int32_t>();
         auto wrong = path.topk_index.as<std::int32_t>();
         for (std::size_t row = 0; row < 12; ++row) {
           if (row % 6 == 0) continue;
           std::copy_n(right.begin() + static_cast<std::ptrdiff_t>((row - 1) * 3), 3,
                       wrong.begin() + static_cast<std::ptrdiff_t>(row * 3));
         }
       }},
  };
}

std::vector<Fault> table_faults() {
  return {
      {"own_block_first", "sparse_block_table", "topk-order-contract",
       [](AttentionCase& attention, Outputs& path) {
         // Own blocks, forced, have the highest scores: in rank order they come first.
         auto ids = path.sparse_block_table.as<std::int32_t>();
         for (std::size_t row = 0; row < 12; ++row) {
           const std::int32_t length =
               attention.outputs.sparse_context_lens.as<std::int32_t>()[row];
           const std::int32_t used = (length + 127) / 128 * 8;
           if (used == 0) continue;
           const auto start = ids.begin() + static_cast<std::ptrdiff_t>(row * 24);
           std::rotate(start, start + used - 8, start + used);
         }
       }},
      {"pages_in_reverse", "sparse_block_table", "sparse-table-page-expansion",
       with_table([](std::span<std::int32_t> ids) {
         for (auto block = ids.begin(); block != ids.end(); block += 8) {
           std::reverse(block, block + 8);
         }
       })},
      {"head_forgotten", "sparse_block_table", "sparse-table-page-expansion",
       with_table([](std::span<std::int32_t> ids) {
         for (std::int32_t& id : ids) id = id / 2 * 2;
       })},
      {"head_not_folded", "sparse_block_table", "sparse-table-page-expansion",
       with_table([](std::span<std::int32_t> ids) {
         for (std::int32_t& id : ids) id /= 2;
       })},
      {"length_of_whole_blocks", "sparse_block_table", "attn-causal-offset",
       [](AttentionCase&, Outputs& path) {
         for (std::int32_t& length : path.sparse_context_lens.as<std::int32_t>()) {
           length = (length + 127) / 128 * 128;
         }
       }},
      {"one_token_short", "sparse_block_table", "attn-causal-offset",
       [](AttentionCase&, Outputs& path) {
         for (std::int32_t& length : path.sparse_context_lens.as<std::int32_t>()) {
           length -= length > 0 ? 1 : 0;
         }
       }},
  };
}

class StageFaults : public testing::TestWithParam<Fault> {};

TEST_P(StageFaults, AreNamedAndPlaced) {
  AttentionCase attention =
      random_case(test::kBfloat16, 31, {16, 128, 304, 1000, 1500, -1}, 2, 2, 1, 3);
  Outputs path = attention.outputs;
  GetParam().change(attention, path);
  const StageOptions options{.threads = 1};
  const auto judgements =
      judge_attention_stages(attention.call, attention.outputs, path, "path", options);
  const auto diagnoses =
      diagnose_attention_stages(attention.call, attention.outputs, path, judgements, options);
  ASSERT_FALSE(diagnoses.empty());
  const Diagnosis& first = diagnoses.front();
  EXPECT_EQ(first.stage, GetParam().stage) << describe(first);
  EXPECT_EQ(first.id(), GetParam().id) << describe(first);
  EXPECT_FALSE(first.tokens.empty());
  EXPECT_GT(first.mismatches, 0);
}

const auto kName = [](const auto& row) { return std::string(row.param.name); };
INSTANTIATE_TEST_SUITE_P(Scores, StageFaults, testing::ValuesIn(score_faults()), kName);
INSTANTIATE_TEST_SUITE_P(Selections, StageFaults, testing::ValuesIn(selection_faults()), kName);
INSTANTIATE_TEST_SUITE_P(Tables, StageFaults, testing::ValuesIn(table_faults()), kName);

TEST(StageDiagnoses, OfAttentionHaveItsInputs) {
  const AttentionCase attention = random_case(test::kBfloat16, 31, {16, 128, 304}, 2, 2, 1, 3);
  Outputs path = attention.outputs;
  std::ranges::fill(path.attn_output.as<std::uint16_t>(), std::uint16_t{0xABAB});
  const StageOptions options{.threads = 1};
  const auto judgements =
      judge_attention_stages(attention.call, attention.outputs, path, "path", options);
  const auto diagnoses =
      diagnose_attention_stages(attention.call, attention.outputs, path, judgements, options);
  ASSERT_EQ(diagnoses.size(), 1U);
  EXPECT_EQ(diagnoses[0].id(), "attn-output-unwritten");
  EXPECT_EQ(diagnoses[0].path, "path");
}

}  // namespace
}  // namespace zerodiff::compare
