// `zerodiff verify --stage`: one stage alone, on what a path has stored; and --index-score.
#include <gtest/gtest.h>

#include <algorithm>

#include "fixtures/capture.h"
#include "reference/layer.h"
#include "tests/fixtures/capture_files.h"
#include "tests/tools/altered_captures.h"
#include "tests/tools/report_reading.h"
#include "tests/tools/tool_runner.h"

namespace zerodiff::test {
namespace {

const std::string kDecode = captured("decode_fp8");

struct StageRow {
  const char* stage;
  std::vector<std::string> outputs;
};
void PrintTo(const StageRow& row, std::ostream* out) {
  *out << row.stage;
}

const std::vector<StageRow> kStages{
    {"qk_norm_rope", {"q", "index_q"}},
    {"index_score", {"index_score"}},
    {"index_topk", {"topk_index"}},
    {"sparse_block_table", {"sparse_block_table", "sparse_context_lens"}},
    {"sparse_attention", {"attn_output"}},
};

class Stage : public testing::TestWithParam<StageRow> {};

TEST_P(Stage, ComparesItsOutputsAlone) {
  for (const char* capture : {"decode_fp8", "prefill_bf16", "graph_fp8_scaled"}) {
    int exit_code = -1;
    const Json report =
        report_of({"verify", "--stage", GetParam().stage, captured(capture)}, &exit_code);
    EXPECT_EQ(exit_code, 0) << capture;
    const Json& one = report.at("cases").at(0);
    const bool reads_call = GetParam().stage == std::string("qk_norm_rope");
    EXPECT_EQ(one.at("stage").at("name"), GetParam().stage);
    EXPECT_EQ(one.at("stage").at("inputs"), reads_call ? "" : "reference");
    const Json& rows = one.at("comparisons");
    // unfused and fused against the reference, fused against unfused
    ASSERT_EQ(rows.size(), 3 * GetParam().outputs.size()) << capture;
    for (const Json& row : rows) {
      EXPECT_EQ(row.at("scope"), "stage");
      EXPECT_EQ(row.at("verdict"), "identical");
      EXPECT_TRUE(row.at("gates"));
      EXPECT_GT(row.at("elements"), 0);
      EXPECT_EQ(std::ranges::count(GetParam().outputs, row.at("output").get<std::string>()), 1)
          << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Names, Stage, testing::ValuesIn(kStages),
                         [](const auto& row) { return std::string(row.param.stage); });

// A path that has every output, scores included, and other caches than the reference's.
std::string write_full_path(const TemporaryFolder& folder,
                            const std::function<void(Outputs&)>& alter) {
  const auto file = folder / "full.h5";
  CaptureReader reader(kDecode, in_process());
  Outputs outputs = reader.read_path("atom_fused");
  reference::run_after_insertion(reader.call(), outputs, {.threads = 1, .keep_index_score = true});
  alter(outputs);
  add_path(kDecode, file, {"full", &outputs, {}});
  return file.string();
}

TEST(StageInputs, ComeFromTheStoredPath) {
  const TemporaryFolder folder;
  const std::string file = write_full_path(folder, [](Outputs&) {});
  for (const StageRow& stage : kStages) {
    if (stage.stage == std::string("qk_norm_rope")) continue;
    int exit_code = -1;
    const Json report =
        report_of({"verify", "--stage", stage.stage, "--stage-inputs", "full", file}, &exit_code);
    EXPECT_EQ(exit_code, 0) << stage.stage;
    EXPECT_EQ(report.at("cases").at(0).at("stage").at("inputs"), "full");
    const std::string rerun = report.at("cases").at(0).at("rerun");
    EXPECT_TRUE(contains(rerun, std::string("--stage ") + stage.stage + " --stage-inputs full"))
        << rerun;
  }
}

TEST(StageInputs, ShowInTheReportForPeople) {
  const ToolRun run =
      run_tool({"verify", "--stage", "sparse_attention", "--stage-inputs", "atom_fused", kDecode});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "stage sparse_attention alone, on the outputs of atom_fused"))
      << run.out;
  EXPECT_TRUE(contains(run.out, "↳ attn_output")) << run.out;
}

struct BadStage {
  const char* name;
  std::vector<std::string> arguments;
  const char* message;
};
void PrintTo(const BadStage& bad, std::ostream* out) {
  *out << bad.name;
}

class BadStageArguments : public testing::TestWithParam<BadStage> {};

TEST_P(BadStageArguments, AreOneLineAndExitCode2) {
  std::vector<std::string> arguments = GetParam().arguments;
  arguments.insert(arguments.begin(), "verify");
  arguments.push_back(kDecode);
  const ToolRun run = run_tool(arguments);
  EXPECT_EQ(run.exit_code, 2) << run.out;
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
  EXPECT_TRUE(contains(run.err, GetParam().message)) << run.err;
}

INSTANTIATE_TEST_SUITE_P(
    All, BadStageArguments,
    testing::ValuesIn(std::vector<BadStage>{
        {"unknown", {"--stage", "softmax"}, "--stage softmax: unknown stage"},
        {"not_stored",
         {"--stage", "reshape_and_cache"},
         "--stage reshape_and_cache: a capture does not hold what it reads or makes"},
        {"inputs_of_the_call",
         {"--stage", "qk_norm_rope", "--stage-inputs", "atom_fused"},
         "--stage-inputs atom_fused: qk_norm_rope reads the call alone"},
        {"inputs_without_stage", {"--stage-inputs", "atom_fused"}, "--stage"},
        {"with_paths", {"--stage", "index_topk", "--strict"}, "--strict"},
        {"no_device",
         {"--device", "none", "--stage", "index_topk"},
         "--stage index_topk: needs a device"},
        {"no_such_path",
         {"--stage", "index_score", "--stage-inputs", "aiter"},
         "/outputs/aiter: path: found no such group"},
        {"path_without_inputs",
         {"--stage", "sparse_block_table", "--stage-inputs", "nvcc_fused"},
         "/outputs/nvcc_fused/topk_index: input of sparse_block_table: found none"},
        {"path_without_scores",
         {"--stage", "index_topk", "--stage-inputs", "atom_fused"},
         "/outputs/atom_fused/index_score: input of index_topk: found none"},
    }),
    [](const auto& row) { return std::string(row.param.name); });

// Blocks that a row does not see would make a kernel read outside of its buffers.
TEST(StageInputs, ThatNameNoBlockAreRefused) {
  const TemporaryFolder folder;
  const std::string file = write_full_path(
      folder, [](Outputs& outputs) { outputs.topk_index.as<std::int32_t>()[0] = 1000; });
  const ToolRun run =
      run_tool({"verify", "--stage", "sparse_block_table", "--stage-inputs", "full", file});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(is_one_error_line(run.err)) << run.err;
  EXPECT_TRUE(contains(run.err, file + ": /outputs/full/topk_index: row 0: found block 1000"))
      << run.err;
}

TEST(IndexScore, IsComparedOnRequest) {
  const Json without = report_of({"verify", kDecode});
  for (const Json& row : without.at("cases").at(0).at("comparisons")) {
    EXPECT_NE(row.at("output"), "index_score");
  }
  int exit_code = -1;
  const Json report = report_of({"verify", "--index-score", kDecode}, &exit_code);
  EXPECT_EQ(exit_code, 0);
  const Json& one = report.at("cases").at(0);
  EXPECT_TRUE(contains(one.at("rerun"), "--index-score")) << one.at("rerun");
  for (const char* path : {"unfused", "fused"}) {
    int rows = 0;
    for (const Json& row : one.at("comparisons")) {
      if (row.at("output") != "index_score" || row.at("path") != path) continue;
      EXPECT_EQ(row.at("verdict"), "identical");
      EXPECT_TRUE(row.at("gates"));
      ++rows;
    }
    EXPECT_GE(rows, 1) << path;
  }
}

// What entered, what left, and the gap: in JSON and for people.
TEST(Verify, ExplainsASelectionThatDiffers) {
  const TemporaryFolder folder;
  const auto file = (folder / "selection.h5").string();
  std::int32_t left = -1;
  add_altered_path(kDecode, file, "atom_fused", "other", [&](Outputs& outputs) {
    left = outputs.topk_index.as<std::int32_t>()[0];
    outputs.topk_index.as<std::int32_t>()[0] = 99;
  });
  const Json report = report_of({"verify", "--device", "none", file});
  const Json row = comparison_of(report.at("cases").at(0), "other", "topk_index", "end_to_end");
  const Json& topk = row.at("detail").at("topk");
  EXPECT_EQ(topk.at("rows"), 1);
  const Json& first = topk.at("first").at(0);
  EXPECT_EQ(first.at("token"), 0);
  EXPECT_EQ(first.at("kv_head"), 0);
  EXPECT_EQ(first.at("entered").at(0).at("block"), 99);
  EXPECT_TRUE(first.at("entered").at(0).at("score").is_null());
  EXPECT_EQ(first.at("left").at(0).at("block"), left);
  EXPECT_TRUE(first.at("left").at(0).at("score").is_number());
  const ToolRun run = run_tool({"verify", "--device", "none", file});
  EXPECT_TRUE(contains(run.out, "blocks token 0, kv head 0: entered 99; left ")) << run.out;
}

}  // namespace
}  // namespace zerodiff::test
