// Buffers and scalars of the stages after insertion: what their launches share.
#pragma once

#include <cstdint>
#include <string>

#include "device/launch_list.h"
#include "device/paths/attention_options.h"
#include "device/paths/path_launches.h"
#include "fixtures/layer_call.h"

namespace zerodiff::device {

// Null where the call or the stages in question have none. Buffers with rows have the call's
// capacity of them, of which kernels touch the first num_tokens.
struct AttentionBuffers {
  Argument positions;
  Argument query_start_loc;
  Argument block_table;
  Argument num_tokens;
  Argument q;
  Argument index_q;
  Argument k_cache;
  Argument v_cache;
  Argument index_cache;
  Argument k_scale;
  Argument v_scale;
  Argument index_score;          // [nkv][T][columns]
  Argument topk_index;           // [nkv][T][topk]
  Argument sparse_block_table;   // [T * nkv][topk * 8]
  Argument sparse_context_lens;  // [T * nkv]
  Argument attn_output;          // [T][nq][128]
};

struct AttentionScalars {
  std::int32_t num_rows;  // T
  std::int32_t num_requests;
  std::int32_t num_columns;  // of the block table
  std::int32_t num_kv_heads;
  std::int32_t group;  // query heads of a kv head
  std::int32_t topk;
  std::int32_t init_blocks;
  std::int32_t local_blocks;
  std::int64_t scale_stride;
  float scale;  // C of numerics.md section 13
  std::int32_t kv_format;
  std::int32_t index_format;
  std::uint32_t switches;
};

// Whether the stages after insertion can run: the metadata is there and, with skip_index_branch, an
// earlier layer's selection.
bool has_selection(const LayerCall& call);

bool runs(const AttentionOptions& options, AttentionStage stage);

// Whether the stage runs and the call has it: with skip_index_branch there are no scores and there
// is no selection of its own.
bool runs(const LayerCall& call, const AttentionOptions& options, AttentionStage stage);

// Finds what the insertion stages, or stored outputs, have put into the list under the names of
// LayerCall and Outputs; adds the rest, and the results of the stages that run.
AttentionBuffers add_attention_buffers(PathLaunches& launches, const LayerCall& call,
                                       const AttentionOptions& options);

AttentionScalars attention_scalars_of(const LayerCall& call);

// [outer][rows][...] as [outer][capacity][...]; every byte of the rows that come in addition is
// 0xFF: -1, or NaN.
Tensor with_capacity(const Tensor& tensor, std::int64_t outer, std::int64_t capacity);

}  // namespace zerodiff::device
