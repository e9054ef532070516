// Stage by stage: each deviation is reported where it began, and only there.
#include "compare/attention_stages.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "fixtures/capture.h"
#include "reference/layer.h"
#include "tests/compare/attention_inputs.h"
#include "tests/compare/softmax_kernel.h"

namespace zerodiff::compare {
namespace {

constexpr std::size_t kScores = 0;
constexpr std::size_t kSelection = 1;
constexpr std::size_t kTable = 2;
constexpr std::size_t kAttention = 3;

std::vector<Verdict> verdicts_of(const std::vector<StageJudgement>& judgements) {
  std::vector<Verdict> verdicts;
  for (const StageJudgement& judgement : judgements) verdicts.push_back(judgement.verdict);
  return verdicts;
}

std::vector<StageJudgement> judge(const AttentionCase& attention, const Outputs& path) {
  return judge_attention_stages(attention.call, attention.outputs, path, "path", {.threads = 1});
}

AttentionCase stages_case() {
  return random_case(test::kCallKinds[3], 6, {5, 300, 700, -1}, 4, 2, 1, 3);
}

TEST(StagesOfTheReference, AreIdentical) {
  const AttentionCase attention = stages_case();
  const auto judgements = judge(attention, attention.outputs);
  const std::vector<Verdict> wanted(4, Verdict::identical);
  EXPECT_EQ(verdicts_of(judgements), wanted);
  EXPECT_EQ(judgements[kScores].stage, "index_score");
  EXPECT_EQ(judgements[kAttention].output, "attn_output");
  EXPECT_EQ(judgements[kAttention].judged, attention.outputs.attn_output.size());
}

// Other caches and another q: all that follows is right for them.
TEST(StagesOnOtherInputs, AreJudgedOnTheirOwn) {
  const AttentionCase attention = stages_case();
  AttentionCase other = random_case(test::kCallKinds[3], 7, {5, 300, 700, -1}, 4, 2, 1, 3);
  other.call = attention.call;
  run_stages(other);
  const auto judgements = judge(attention, other.outputs);
  const std::vector<Verdict> wanted{Verdict::bounded, Verdict::identical, Verdict::identical,
                                    Verdict::bounded};
  EXPECT_EQ(verdicts_of(judgements), wanted);
  EXPECT_EQ(judgements[kScores].accumulator, "tensor_fp8");
  EXPECT_EQ(judgements[kAttention].accumulator, "tensor_fp32");
  EXPECT_TRUE(judgements[kAttention].borrowed.empty());
  EXPECT_GT(judgements[kAttention].resolution->share(), 0);
}

struct Deviation {
  const char* name;
  std::function<void(const LayerCall&, Outputs&)> change;
  std::size_t stage;
  const char* note;
};
void PrintTo(const Deviation& deviation, std::ostream* out) {
  *out << deviation.name;
}

class Deviations : public testing::TestWithParam<Deviation> {};

// What follows the deviation is recomputed from it, as a path would.
TEST_P(Deviations, AreReportedWhereTheyBegan) {
  const AttentionCase attention = stages_case();
  Outputs path = attention.outputs;
  GetParam().change(attention.call, path);
  const auto judgements = judge(attention, path);
  ASSERT_EQ(judgements.size(), 4U);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const StageJudgement& judgement = judgements[stage];
    if (stage == GetParam().stage) {
      EXPECT_EQ(judgement.verdict, Verdict::fault) << judgement.stage;
      EXPECT_GT(judgement.faults, 0);
      EXPECT_NE(judgement.note.find(GetParam().note), std::string::npos) << judgement.note;
    } else {
      EXPECT_NE(judgement.verdict, Verdict::fault) << judgement.stage << ": " << judgement.note;
      EXPECT_NE(judgement.verdict, Verdict::absent) << judgement.stage;
    }
  }
}

void recompute_table_and_attention(const LayerCall& call, Outputs& path) {
  LayerCall given = call;
  given.config.skip_index_branch = true;
  given.topk_index = path.topk_index;
  reference::run_after_insertion(given, path, {.threads = 1, .keep_index_score = false});
}

void recompute_attention(const LayerCall& call, Outputs& path) {
  path.attn_output = run({.name = ""}, call, path);
}

INSTANTIATE_TEST_SUITE_P(
    , Deviations,
    testing::Values(Deviation{"score",
                              [](const LayerCall& /*call*/, Outputs& path) {
                                path.index_score.as<float>()[0] += 100;
                              },
                              kScores, "kv_head 0, token 0"},
                    Deviation{
                        "selection",
                        [](const LayerCall& call, Outputs& path) {
                          auto ids = path.topk_index.as<std::int32_t>();
                          ids[6] =
                              0;  // token 2 of head 0 selects the first three blocks, 5 is its own
                          ids[7] = 1;
                          ids[8] = 2;
                          recompute_table_and_attention(call, path);
                        },
                        kSelection, "token 2, request 2, position 700: forced block 5"},
                    Deviation{"table",
                              [](const LayerCall& call, Outputs& path) {
                                path.sparse_context_lens.as<std::int32_t>()[2] -= 1;
                                recompute_attention(call, path);
                              },
                              kTable, "token 1, request 1, position 300, kv_head 0: length"},
                    Deviation{"table_out_of_the_pool",
                              [](const LayerCall& /*call*/, Outputs& path) {
                                path.sparse_block_table.as<std::int32_t>()[48] = 1 << 30;
                              },
                              kTable, "token 1"},
                    Deviation{"attention",
                              [](const LayerCall& /*call*/, Outputs& path) {
                                path.attn_output.as<std::uint16_t>()[4 * 128 + 130] ^= 0x40;
                              },
                              kAttention, "token 1, request 1, position 300, head 1, dim 2"},
                    Deviation{"empty_row",
                              [](const LayerCall& /*call*/, Outputs& path) {
                                path.attn_output.as<std::uint16_t>()[3 * 4 * 128] = 0x7FC0;
                              },
                              kAttention, "token 3"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(StagesThatLackInputs, BorrowThemAndSaySo) {
  const AttentionCase attention = stages_case();
  Outputs path;
  path.attn_output = run({.name = "", .splits = 3}, attention.call, attention.outputs);
  path.topk_index = attention.outputs.topk_index;
  const auto judgements = judge(attention, path);
  const std::vector<Verdict> wanted{Verdict::absent, Verdict::identical, Verdict::absent,
                                    Verdict::bounded};
  EXPECT_EQ(verdicts_of(judgements), wanted);
  const std::vector<std::string> borrowed{"q: the reference's", "k_cache: the reference's",
                                          "v_cache: the reference's",
                                          "sparse_block_table: made from its topk_index"};
  EXPECT_EQ(judgements[kAttention].borrowed, borrowed);
}

TEST(StagesUnderSkipIndexBranch, UseTheCallsSelection) {
  AttentionCase attention = stages_case();
  attention.call.config.skip_index_branch = true;
  attention.call.topk_index = attention.outputs.topk_index;
  attention.outputs.topk_index = {};
  attention.outputs.index_score = {};
  run_stages(attention);
  Outputs path = attention.outputs;
  path.attn_output = run({.name = "", .splits = 3}, attention.call, attention.outputs);
  const auto judgements = judge(attention, path);
  const std::vector<Verdict> wanted{Verdict::absent, Verdict::absent, Verdict::identical,
                                    Verdict::bounded};
  EXPECT_EQ(verdicts_of(judgements), wanted);
}

TEST(StagesWithoutMetadata, AreNone) {
  AttentionCase attention = stages_case();
  attention.call.block_table = {};
  EXPECT_TRUE(judge(attention, attention.outputs).empty());
}

// Its K was quantised from another source, so end to end it differs; on its own caches it is right.
TEST(CapturedStages, AreBoundedOnTheirOwnCaches) {
  CaptureReader reader(
      std::string(ZERODIFF_SOURCE_DIR) + "/fixtures/captured/m3_small_decode_fp8.h5",
      {.probe_in_child = false});
  const Outputs expected = reference::run_layer(reader.call());
  const Outputs path = reader.read_path("atom_fused");
  ASSERT_FALSE(identical(path.k_cache, expected.k_cache));
  const auto judgements =
      judge_attention_stages(reader.call(), expected, path, "atom_fused", {.threads = 1});
  const std::vector<Verdict> wanted{Verdict::absent, Verdict::identical, Verdict::identical,
                                    Verdict::bounded};
  EXPECT_EQ(verdicts_of(judgements), wanted);
  EXPECT_GT(judgements[kAttention].headroom->median, 0.01);
}

}  // namespace
}  // namespace zerodiff::compare
