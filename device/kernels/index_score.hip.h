// Stage index_score: how much each token wants each block (numerics.md section 10).
//
// A work-group has a tile of rows, (token, index head) pairs of neighbouring tokens, and a run of
// blocks. Tokens of one request share its index K.
#pragma once

#include "device/kernels/index_tile.hip.h"
#include "device/kernels/token_request.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

template <class Code>
struct IndexScoreArguments {
  View<const Code> index_q;      // [rows, niq, 128]
  View<const Code> index_cache;  // [NB][128][128]
  View<const int32_t> block_table;
  View<const int32_t> query_start_loc;
  View<const int64_t> positions;
  View<const int32_t> num_tokens;
  View<float> index_score;  // [niq][rows][columns]
  int32_t num_rows;
  int32_t num_requests;
  int32_t num_columns;  // of the block table
  int32_t num_index_heads;
  int32_t tokens_per_tile;
  int32_t heads_per_tile;
  int32_t blocks_per_group;
  int32_t index_format;
};

// Rows of a tile that see the same blocks: neighbouring tokens of a request, with some index heads.
struct ScoreRows {
  int64_t first_token;
  int32_t tokens;
  int32_t first_head;
  int32_t heads;
  int32_t request;
  int64_t last_position;  // the largest; negative: none of the tokens sees anything
};

// Row r of the tile, tokens slowest.
struct ScoreRow {
  int64_t token;
  int32_t head;
};
__device__ __forceinline__ ScoreRow score_row(const ScoreRows& rows, int32_t r) {
  ScoreRow row;
  row.token = rows.first_token + r / rows.heads;
  row.head = rows.first_head + r % rows.heads;
  return row;
}

// Those from `token` on, up to the end of the tile.
template <class Code>
__device__ __forceinline__ ScoreRows score_rows(const IndexScoreArguments<Code>& args,
                                                int64_t token, int64_t tile_end) {
  ScoreRows rows;
  rows.request = token_request(args.query_start_loc, args.num_requests, token);
  const int64_t request_end = args.query_start_loc[rows.request + 1];
  const int64_t end = request_end < tile_end && request_end > token ? request_end : tile_end;
  rows.first_token = token;
  rows.tokens = static_cast<int32_t>(end - token);
  rows.first_head = static_cast<int32_t>(blockIdx.z) * args.heads_per_tile;
  const int32_t heads_left = args.num_index_heads - rows.first_head;
  const int32_t heads = heads_left < args.heads_per_tile ? heads_left : args.heads_per_tile;
  rows.heads = ZERODIFF_PLANT(topk_head_padding, heads, planted::power_of_two(heads));
  rows.last_position = -1;
  for (int64_t t = token; t < end; ++t) {
    const int64_t position = args.positions[t];
    rows.last_position = position > rows.last_position ? position : rows.last_position;
  }
  return rows;
}

// index_q of the rows as numbers, [kRows][128]; rows that the tile lacks are zero. A barrier must
// follow.
template <class Row, class Code, int32_t kRows>
__device__ __forceinline__ void stage_index_q(const IndexScoreArguments<Code>& args,
                                              const ScoreRows& rows, SharedView<float> query) {
  constexpr int32_t kPerRow = kHeadElements / kGranule<Code>;
  const Fp8Decoder decoder = make_fp8_decoder(args.index_format);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kRows * kPerRow; i += kTileThreads) {
    const int32_t r = i / kPerRow;
    Granule granule = {};
    if (r < rows.tokens * rows.heads) {
      const ScoreRow row = score_row(rows, r);
      const int64_t head = row.token * args.num_index_heads + row.head;
      granule = bits_as<Granule>(
          load16(args.index_q, head * kHeadElements + i % kPerRow * kGranule<Code>));
    }
    ZERODIFF_UNROLL
    for (int32_t part = 0; part < kGranuleParts<Code>; ++part) {
      float decoded[kInnerStep];
      decode_part<Row, Code>(decoder, granule, part, decoded);
      store_part(query, i * kGranule<Code> + part * kInnerStep, decoded);
    }
  }
}

// dot of every row and position of a block, [kRows][128], of which `tokens` positions are seen by
// some row. Ends with a barrier.
template <class Row, class Code, int32_t kRows>
__device__ __forceinline__ void index_dots(const IndexScoreArguments<Code>& args, int64_t start,
                                           int32_t tokens, int32_t live_rows,
                                           SharedView<const float> query, SharedView<int64_t> tile,
                                           SharedView<float> dots) {
  constexpr int32_t kDims = kIndexGranules * kGranule<Code>;
  const Fp8Decoder decoder = make_fp8_decoder(args.index_format);
  TileSums<kRows> sums = zero_sums<kRows>();
  for (int32_t dim = 0; dim < kHeadElements; dim += kDims) {
    stage_index_k(args.index_cache, start, dim, tokens, tile);
    __syncthreads();
    add_index_products<Row, Code>(sums, query, live_rows, dim, tile, tokens, decoder);
    __syncthreads();
  }
  ZERODIFF_UNROLL
  for (int32_t row = 0; row < kRows; ++row) {
    ZERODIFF_UNROLL
    for (int32_t i = 0; i < kColumnsPerThread; ++i) {
      dots[row * kHeadElements + tile_column(i)] = sums.e[row][i];
    }
  }
  __syncthreads();
}

// The largest dot of the first `tokens` positions, in every lane: NaN only if all are. All 32 lanes
// of a group must call, with the same row.
__device__ __forceinline__ float largest_dot(SharedView<const float> dots, int32_t row,
                                             int32_t tokens) {
  const int32_t first = static_cast<int32_t>(threadIdx.x) % 32 * 4;
  const Vec16<float> own = load16(dots, row * kHeadElements + first);
  float largest = NAN;
  ZERODIFF_UNROLL
  for (int32_t i = 0; i < 4; ++i) {
    const float dot = ZERODIFF_PLANT(index_score_formula, own.e[i], fabsf(own.e[i]));
    if (first + i < tokens) largest = fmaxf(largest, dot);
  }
  for (int32_t mask = 16; mask > 0; mask /= 2) {
    largest = fmaxf(largest, shfl_xor32(largest, mask));
  }
  return largest;
}

// Positions of a block that a token at `position` sees: 0 to 128.
__device__ __forceinline__ int32_t seen_tokens(int64_t position, int32_t block) {
  if (position < 0) return 0;
  const int64_t seen = position + 1 - int64_t{block} * kBlockTokens;
  return static_cast<int32_t>(seen < 0 ? 0 : seen < kBlockTokens ? seen : kBlockTokens);
}

template <class Code>
__device__ __forceinline__ int64_t score_place(const IndexScoreArguments<Code>& args, ScoreRow row,
                                               int32_t block) {
  return (int64_t{row.head} * args.num_rows + row.token) * args.num_columns + block;
}

// Scores of a block that some row sees, a group of 32 lanes a row; -inf where a row does not.
template <int32_t kRows, class Code>
__device__ __forceinline__ void store_scores(const IndexScoreArguments<Code>& args,
                                             const ScoreRows& rows, int32_t block,
                                             SharedView<const float> dots) {
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  for (int32_t r = thread / 32; r < kRows; r += kTileThreads / 32) {
    if (r >= rows.tokens * rows.heads) continue;
    const ScoreRow row = score_row(rows, r);
    const int64_t position = args.positions[row.token];
    const int32_t seen = seen_tokens(position, block);
    const float score = largest_dot(dots, r, seen) + 0.0F;
    if (thread % 32 != 0) continue;
    args.index_score[score_place(args, row, block)] = seen == 0 ? -INFINITY : score;
  }
}

// -inf for blocks first .. last - 1, which no row sees.
template <class Code>
__device__ __forceinline__ void store_unseen(const IndexScoreArguments<Code>& args,
                                             const ScoreRows& rows, int32_t first, int32_t last) {
  const int32_t count = last - first;
  const int32_t total = rows.tokens * rows.heads * count;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < total; i += kTileThreads) {
    const ScoreRow row = score_row(rows, i / count);
    args.index_score[score_place(args, row, first + i % count)] = -INFINITY;
  }
}

template <class Row, class Code, int32_t kRows>
__device__ __forceinline__ void score_blocks(const IndexScoreArguments<Code>& args,
                                             const ScoreRows& rows, int32_t first, int32_t last,
                                             SharedView<float> query, SharedView<int64_t> tile,
                                             SharedView<float> dots) {
  const int64_t visible = rows.last_position < 0 ? 0 : rows.last_position / kBlockTokens + 1;
  const int32_t seen_end = static_cast<int32_t>(visible < last ? visible : last);
  const int32_t end = seen_end > first ? seen_end : first;
  store_unseen(args, rows, end, last);
  if (end == first) return;
  stage_index_q<Row, Code, kRows>(args, rows, query);
  const int64_t table = int64_t{rows.request} * args.num_columns;
  for (int32_t block = first; block < end; ++block) {
    const int32_t column =
        ZERODIFF_PLANT(index_score_length_cliff,
                       ZERODIFF_PLANT(block_table_oob_column, block, block + 1), block % 2);
    const int64_t physical = args.block_table[table + column];
    index_dots<Row, Code, kRows>(args, index_row_start(physical * kBlockTokens),
                                 seen_tokens(rows.last_position, block), rows.tokens * rows.heads,
                                 query, tile, dots);
    store_scores<kRows>(args, rows, block, dots);
  }
  __syncthreads();
}

template <class Row, class Code, int32_t kRows>
__device__ __forceinline__ void index_score(const IndexScoreArguments<Code>& args) {
  ZERODIFF_SHARED(float, query, kRows* kHeadElements);
  ZERODIFF_SHARED(int64_t, tile, kIndexTileWords);
  ZERODIFF_SHARED(float, dots, kRows* kHeadElements);
  const int32_t num_tokens = args.num_tokens[0];
  const int64_t first_token = int64_t{blockIdx.x} * args.tokens_per_tile;
  const int64_t wanted_end = first_token + args.tokens_per_tile;
  const int64_t tile_end = wanted_end < num_tokens ? wanted_end : num_tokens;
  const int64_t first_block = int64_t{blockIdx.y} * args.blocks_per_group;
  const int64_t wanted_last = first_block + args.blocks_per_group;
  const int64_t last_block = wanted_last < args.num_columns ? wanted_last : args.num_columns;
  int64_t token = first_token;
  while (token < tile_end) {
    const ScoreRows rows = score_rows(args, token, tile_end);
    score_blocks<Row, Code, kRows>(args, rows, static_cast<int32_t>(first_block),
                                   static_cast<int32_t>(last_block), query, tile, dots);
    token += rows.tokens;
  }
}

// docs/kernels.md describes every argument. The x axis counts tiles of tokens, the y axis runs of
// blocks, the z axis tiles of index heads.
#define ZERODIFF_INDEX_SCORE(name, Row, Code, rows)                                               \
  ZERODIFF_KERNEL_BOUNDS(name, 64)                                                                \
  (View<const Code> index_q, View<const Code> index_cache, View<const int32_t> block_table,       \
   View<const int32_t> query_start_loc, View<const int64_t> positions,                            \
   View<const int32_t> num_tokens, View<float> scores, int32_t num_rows, int32_t num_requests,    \
   int32_t num_columns, int32_t num_index_heads, int32_t tokens_per_tile, int32_t heads_per_tile, \
   int32_t blocks_per_group, int32_t index_format) {                                              \
    index_score<Row, Code, rows>({index_q, index_cache, block_table, query_start_loc, positions,  \
                                  num_tokens, scores, num_rows, num_requests, num_columns,        \
                                  num_index_heads, tokens_per_tile, heads_per_tile,               \
                                  blocks_per_group, index_format});                               \
  }

// fp8 operands decode the same whatever the model dtype is.
ZERODIFF_INDEX_SCORE(index_score_bf16_r4, BFloat16, uint16_t, 4)
ZERODIFF_INDEX_SCORE(index_score_bf16_r16, BFloat16, uint16_t, 16)
ZERODIFF_INDEX_SCORE(index_score_fp16_r4, Float16, uint16_t, 4)
ZERODIFF_INDEX_SCORE(index_score_fp16_r16, Float16, uint16_t, 16)
ZERODIFF_INDEX_SCORE(index_score_fp8_r4, BFloat16, uint8_t, 4)
ZERODIFF_INDEX_SCORE(index_score_fp8_r16, BFloat16, uint8_t, 16)

#undef ZERODIFF_INDEX_SCORE

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
