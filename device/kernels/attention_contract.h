// What host code and the kernels of scores, selection and attention agree on.
// Plain C++: included by kernels on every backend, and by the paths that launch them.
#pragma once

#include <cstdint>

namespace zerodiff::device {

// Threads of a work-group of index_score and of the attention kernels; each owns 128 / 64 columns.
inline constexpr std::int32_t kTileThreads = 64;
// Rows of the largest tile: (token, index head) pairs, or query heads of one kv head.
inline constexpr std::int32_t kMaxTileRows = 16;

inline constexpr std::int32_t kTopkThreads = 128;   // of index_topk and fused_topk, a row each
inline constexpr std::int32_t kTableThreads = 128;  // of sparse_block_table, one a table block
inline constexpr std::int32_t kMergeThreads = 128;  // of attention_merge: 16 lanes a head
inline constexpr std::int32_t kMergeHeads = 8;      // heads of one of its work-groups

// Pages of a block in a sparse block table.
inline constexpr std::int32_t kTablePages = 8;

// 64-bit words of softmax weights that fused_attention keeps for one block and tile row: 4 weights
// of the model dtype each.
inline constexpr std::int32_t kWeightWords = 32;

}  // namespace zerodiff::device
