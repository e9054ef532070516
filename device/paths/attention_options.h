// How the stages after insertion are run: scores, selection and attention.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zerodiff::device {

// In the order in which they run. The fused path has index_topk and sparse_block_table in one
// kernel when both are wanted.
enum class AttentionStage : std::uint8_t {
  index_score,
  index_topk,
  sparse_block_table,
  sparse_attention,
};

// "index_score", ...
std::string_view name_of(AttentionStage stage);

// Results do not depend on anything in here but the stages and `keep_index_score`.
struct AttentionOptions {
  AttentionStage first_stage = AttentionStage::index_score;
  AttentionStage last_stage = AttentionStage::sparse_attention;
  bool keep_index_score = false;

  // Unfused attention: work-groups that share the blocks of a row. 0: as many as fill a GPU.
  std::int64_t splits = 0;
  // About how many work-groups fill a GPU.
  std::int64_t wanted_work_groups = 1024;
  // Of each scratch of attention. Unfused attention runs its rows in several launches where they do
  // not fit, fused attention has fewer work-groups.
  std::int64_t scratch_bytes = std::int64_t{32} << 20;
  // Of the outputs before the launches: bytes that nobody wrote stay recognisable.
  std::byte output_fill{0xCB};
};

}  // namespace zerodiff::device
