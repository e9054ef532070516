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

void decode(ElementType type, const std::byte* bits, std::span<float> out) {
  if (!is_fp8(type)) {
    from_model_dtype(type, {reinterpret_cast<const std::uint16_t*>(bits), out.size()}, out);
    return;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = fp8_values(type)[std::to_integer<std::size_t>(bits[i])];
  }
}

using Square = Eigen::internal::PacketBlock<Lanes, kLanes>;

// Dims [d, d + kLanes) of kLanes positions, with the positions as lanes.
Square transposed_square(const float* strip, std::int64_t d) {
  Square square;
  for (std::int64_t i = 0; i < kLanes; ++i) {
    square.packet[i] = Eigen::internal::ploadu<Lanes>(strip + i * kHeadDim + d);
  }
  Eigen::internal::ptranspose(square);
  return square;
}

// Two squares of positions at a time, so that two chains of additions are under way.
constexpr std::int64_t kStrip = 2 * kLanes;

// Carries the chains of kStrip positions through dims [d, d + kLanes) of one query.
void add_products(const float* query, const Square& first, const Square& second, float* dots) {
  namespace packet = Eigen::internal;
  Lanes low = packet::ploadu<Lanes>(dots);
  Lanes high = packet::ploadu<Lanes>(dots + kLanes);
  for (std::int64_t i = 0; i < kLanes; ++i) {
    const auto factor = packet::pset1<Lanes>(query[i]);
    low = fused_multiply_add(factor, first.packet[i], low);
    high = fused_multiply_add(factor, second.packet[i], high);
  }
  packet::pstoreu(dots, low);
  packet::pstoreu(dots + kLanes, high);
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

  // Scores of one block of one request, for the request's rows that see it. `dots` is working space.
  void score_block(const Tensor& index_cache, std::int64_t request, std::int64_t block,
                   std::vector<float>& dots) const;
  // The dots of queries [first, last), a (row, head) each, with all positions of a pool block.
  void dot_block(const Tensor& index_cache, std::int64_t pool_block_id, std::int64_t first,
                 std::int64_t last, std::vector<float>& dots) const;
  void store(std::int64_t row, std::int64_t block, std::int64_t live, const float* dots) const;
};

void ScoreWork::store(std::int64_t row, std::int64_t block, std::int64_t live,
                      const float* dots) const {
  const auto out = scores.as<float>();
  const std::int64_t tokens = scores.dim(1);
  const std::int64_t blocks = scores.dim(2);
  for (std::int64_t head = 0; head < call.config.num_index_heads; ++head) {
    const std::span<const float> head_dots(dots + head * kBlockSize,
                                           static_cast<std::size_t>(live));
    out[static_cast<std::size_t>((head * tokens + row) * blocks + block)] = block_score(head_dots);
  }
}

void ScoreWork::dot_block(const Tensor& index_cache, std::int64_t pool_block_id, std::int64_t first,
                          std::int64_t last, std::vector<float>& dots) const {
  const auto size = static_cast<std::int64_t>(element_size(index_cache.type()));
  const std::byte* const block =
      index_cache.bytes().data() + pool_block_id * kBlockSize * kHeadDim * size;
  std::array<float, static_cast<std::size_t>(kStrip * kHeadDim)> strip;
  dots.assign(static_cast<std::size_t>((last - first) * kBlockSize), 0.0F);
  for (std::int64_t position = 0; position < kBlockSize; position += kStrip) {
    decode(index_cache.type(), block + position * kHeadDim * size, strip);
    for (std::int64_t d = 0; d < kHeadDim; d += kLanes) {
      const Square low = transposed_square(strip.data(), d);
      const Square high = transposed_square(strip.data() + kLanes * kHeadDim, d);
      for (std::int64_t query = first; query < last; ++query) {
        add_products(index_q.data() + query * kHeadDim + d, low, high,
                     dots.data() + (query - first) * kBlockSize + position);
      }
    }
  }
}

void ScoreWork::score_block(const Tensor& index_cache, std::int64_t request, std::int64_t block,
                            std::vector<float>& dots) const {
  const auto starts = call.query_start_loc.as<std::int32_t>();
  const std::int64_t begin = starts[static_cast<std::size_t>(request)];
  const std::int64_t end = starts[static_cast<std::size_t>(request) + 1];
  const std::int64_t heads = call.config.num_index_heads;
  // Positions ascend in a request: the rows before the first that sees the block need no dots.
  std::int64_t first = begin;
  while (first < end && visible_blocks(call, first) <= block) ++first;
  dot_block(index_cache, pool_block(call, request, block), first * heads, end * heads, dots);
  for (std::int64_t row = first; row < end; ++row) {
    // Asked first: an empty row's position may be so small that the subtraction overflows.
    if (block >= visible_blocks(call, row)) continue;
    const std::int64_t live = std::min(kBlockSize, position_of(call, row) + 1 - block * kBlockSize);
    store(row, block, live, dots.data() + (row - first) * heads * kBlockSize);
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
  parallel_for(static_cast<std::int64_t>(blocks.size()), threads,
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<float> dots;
                 for (std::int64_t i = begin; i < end; ++i) {
                   const auto [request, block] = blocks[static_cast<std::size_t>(i)];
                   work.score_block(index_cache, request, block, dots);
                 }
               });
  return scores;
}

}  // namespace zerodiff::reference
