#include "reference/index_score.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "reference/fma_chain.h"
#include "reference/number_formats.h"
#include "reference/parallel.h"
#include "reference/visible_blocks.h"

namespace zerodiff::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One block of index K with dims as rows, so that the lanes of a chain are positions. The row pitch
// keeps columns out of one another's cache sets.
constexpr std::int64_t kTilePitch = kBlockSize + 16;
using Tile = std::vector<float>;

void decode(ElementType type, const std::byte* bits, std::span<float> out) {
  if (!is_fp8(type)) {
    from_model_dtype(type, {reinterpret_cast<const std::uint16_t*>(bits), out.size()}, out);
    return;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = fp8_values(type)[std::to_integer<std::size_t>(bits[i])];
  }
}

// Positions [first, first + kLanes) of the block into the tile's columns.
void transpose_strip(const float* strip, std::int64_t first, Tile& tile) {
  namespace packet = Eigen::internal;
  for (std::int64_t d = 0; d < kHeadDim; d += kLanes) {
    Eigen::internal::PacketBlock<Lanes, kLanes> square;
    for (std::int64_t i = 0; i < kLanes; ++i) {
      square.packet[i] = packet::ploadu<Lanes>(strip + i * kHeadDim + d);
    }
    packet::ptranspose(square);
    for (std::int64_t i = 0; i < kLanes; ++i) {
      packet::pstoreu(tile.data() + (d + i) * kTilePitch + first, square.packet[i]);
    }
  }
}

void load_block(const Tensor& index_cache, std::int64_t pool_block_id, Tile& tile) {
  const auto size = static_cast<std::int64_t>(element_size(index_cache.type()));
  const std::byte* const block =
      index_cache.bytes().data() + pool_block_id * kBlockSize * kHeadDim * size;
  std::array<float, static_cast<std::size_t>(kLanes * kHeadDim)> strip;
  for (std::int64_t first = 0; first < kBlockSize; first += kLanes) {
    decode(index_cache.type(), block + first * kHeadDim * size, strip);
    transpose_strip(strip.data(), first, tile);
  }
}

// The maximum of the live dots; NaN only if all are NaN, never -0.
float block_score(std::span<const float> dots) {
  float best = -kInfinity;
  bool any_number = false;
  for (const float dot : dots) {
    any_number |= !std::isnan(dot);
    best = dot > best ? dot : best;
  }
  return any_number ? best + 0.0F : std::numeric_limits<float>::quiet_NaN();
}

struct ScoreWork {
  const LayerCall& call;
  std::vector<float> index_q;  // decoded, [T, niq*128]
  Tensor& scores;

  // Scores of one block of one request for all of the request's rows.
  void score_block(std::int64_t request, std::int64_t block, const Tile& tile,
                   std::vector<float>& dots) const;
  void store(std::int64_t row, std::int64_t block, std::int64_t live,
             const std::vector<float>& dots) const;
};

void ScoreWork::store(std::int64_t row, std::int64_t block, std::int64_t live,
                      const std::vector<float>& dots) const {
  const auto out = scores.as<float>();
  const std::int64_t tokens = scores.dim(1);
  const std::int64_t blocks = scores.dim(2);
  for (std::int64_t head = 0; head < call.config.num_index_heads; ++head) {
    const std::span<const float> head_dots(dots.data() + head * kBlockSize,
                                           static_cast<std::size_t>(live));
    out[static_cast<std::size_t>((head * tokens + row) * blocks + block)] = block_score(head_dots);
  }
}

void ScoreWork::score_block(std::int64_t request, std::int64_t block, const Tile& tile,
                            std::vector<float>& dots) const {
  const auto starts = call.query_start_loc.as<std::int32_t>();
  const auto begin = static_cast<std::int64_t>(starts[static_cast<std::size_t>(request)]);
  const auto end = static_cast<std::int64_t>(starts[static_cast<std::size_t>(request) + 1]);
  const std::int64_t heads = call.config.num_index_heads;
  const FactorLayout queries{kHeadDim, kHeadDim, 0};
  for (std::int64_t row = begin; row < end; ++row) {
    if (block >= visible_blocks(call, row)) continue;  // before the subtraction: it may overflow
    const std::int64_t live = std::min(kBlockSize, position_of(call, row) + 1 - block * kBlockSize);
    std::fill(dots.begin(), dots.end(), 0.0F);
    fma_chains(index_q.data() + row * heads * kHeadDim, queries, heads, kHeadDim, tile.data(),
               kBlockSize, kTilePitch, dots.data(), kBlockSize);
    store(row, block, live, dots);
  }
}

struct RequestBlock {
  std::int64_t request;
  std::int64_t block;
};

std::vector<RequestBlock> visible_request_blocks(const LayerCall& call) {
  std::vector<RequestBlock> work;
  const auto starts = call.query_start_loc.as<std::int32_t>();
  for (std::size_t request = 0; request + 1 < starts.size(); ++request) {
    std::int64_t most = 0;
    for (std::int64_t row = starts[request]; row < starts[request + 1]; ++row) {
      most = std::max(most, visible_blocks(call, row));
    }
    for (std::int64_t block = 0; block < most; ++block) {
      work.push_back({static_cast<std::int64_t>(request), block});
    }
  }
  return work;
}

}  // namespace

Tensor index_score(const LayerCall& call, const Tensor& index_q, const Tensor& index_cache,
                   int threads) {
  const LayerConfig& config = call.config;
  Tensor scores = Tensor::allocate(
      ElementType::float32, {config.num_kv_heads, config.num_tokens, call.block_table.dim(1)});
  std::fill(scores.as<float>().begin(), scores.as<float>().end(), -kInfinity);
  ScoreWork work{call, std::vector<float>(static_cast<std::size_t>(index_q.size())), scores};
  decode(index_q.type(), index_q.bytes().data(), work.index_q);

  const std::vector<RequestBlock> blocks = visible_request_blocks(call);
  parallel_for(
      static_cast<std::int64_t>(blocks.size()), threads, [&](std::int64_t begin, std::int64_t end) {
        Tile tile(static_cast<std::size_t>(kHeadDim * kTilePitch));
        std::vector<float> dots(static_cast<std::size_t>(config.num_index_heads * kBlockSize));
        for (std::int64_t i = begin; i < end; ++i) {
          const auto [request, block] = blocks[static_cast<std::size_t>(i)];
          load_block(index_cache, pool_block(call, request, block), tile);
          work.score_block(request, block, tile, dots);
        }
      });
  return scores;
}

}  // namespace zerodiff::reference
