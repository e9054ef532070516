#include "reference/sparse_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "reference/cache_pages.h"
#include "reference/exp2.h"
#include "reference/fma_chain.h"
#include "reference/number_formats.h"
#include "reference/parallel.h"

namespace zerodiff::reference {
namespace {

using Floats = std::vector<float>;

std::size_t floats(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(rows * columns);
}

// One (token, kv head) at a time. The query heads of the group are the lanes of every vector, so
// K and V are used in the layout they are stored in and each head's sums keep the contract's order.
class GroupAttention {
 public:
  GroupAttention(const LayerCall& call, const CachePages& k_pages, const CachePages& v_pages);

  // folded_ids: the row of the table; length: its live tokens; q and out: the group's heads.
  void run(std::span<const std::int32_t> folded_ids, std::int64_t length,
           std::span<const std::uint16_t> q, std::span<std::uint16_t> out);

 private:
  void load_queries(std::span<const std::uint16_t> q);
  void score_block(std::span<const std::int32_t> folded_ids, std::int64_t live);
  void weigh_block(std::int64_t live, float* block_max, float* block_sum);
  void add_values(std::span<const std::int32_t> folded_ids, std::int64_t live, float* block_out);
  void merge(std::int64_t blocks, std::span<std::uint16_t> out);

  const CachePages& k_pages_;
  const CachePages& v_pages_;
  ElementType model_dtype_;
  std::int64_t group_;  // query heads of a kv head
  std::int64_t lanes_;  // the same, padded to whole vectors
  float log2_scale_;    // C
  FactorLayout k_layout_;
  FactorLayout v_layout_;
  Floats page_;       // [2048] one plane of K or V
  Floats queries_;    // [128][lanes]
  Floats weights_;    // [128][lanes]: dots, then scores, then p
  Floats lane_sums_;  // [32][lanes]
  Floats maxima_;     // [blocks][lanes]
  Floats sums_;       // [blocks][lanes]
  Floats outputs_;    // [blocks][128][lanes]
};

GroupAttention::GroupAttention(const LayerCall& call, const CachePages& k_pages,
                               const CachePages& v_pages)
    : k_pages_(k_pages),
      v_pages_(v_pages),
      model_dtype_(call.model_dtype()),
      group_(call.config.num_heads / call.config.num_kv_heads),
      lanes_(padded_to_lanes(group_)),
      log2_scale_(call.config.sm_scale * 0x1.715476p+0F),
      page_(floats(1, kPagePlane)),
      queries_(floats(kHeadDim, lanes_)),
      weights_(floats(kBlockSize, lanes_)),
      lane_sums_(floats(32, lanes_)) {
  const std::int64_t x = call.cache_vector_width();
  k_layout_ = {x, x, kPageSize * x};  // rows are tokens, depth is dims
  v_layout_ = {x, x, kHeadDim * x};   // rows are dims, depth is tokens
}

void GroupAttention::load_queries(std::span<const std::uint16_t> q) {
  for (std::int64_t head = 0; head < group_; ++head) {
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      queries_[floats(d, lanes_) + static_cast<std::size_t>(head)] =
          from_model_dtype(model_dtype_, q[floats(head, kHeadDim) + static_cast<std::size_t>(d)]);
    }
  }
}

void GroupAttention::score_block(std::span<const std::int32_t> folded_ids, std::int64_t live) {
  std::fill(weights_.begin(), weights_.end(), 0.0F);
  for (std::int64_t first = 0; first < live; first += kPageSize) {
    k_pages_.read(folded_ids[static_cast<std::size_t>(first / kPageSize)],
                  std::span<float, kPagePlane>(page_));
    fma_chains(page_.data(), k_layout_, kPageSize, kHeadDim, queries_.data(), lanes_, lanes_,
               weights_.data() + first * lanes_, lanes_);
  }
}

// dots -> s -> m_n, l_n and p, in place.
void GroupAttention::weigh_block(std::int64_t live, float* block_max, float* block_sum) {
  const std::int64_t used = live * lanes_;
  std::fill_n(block_max, lanes_, -std::numeric_limits<float>::infinity());
  for (std::int64_t i = 0; i < used; i += lanes_) {
    for (std::int64_t g = 0; g < lanes_; ++g) {
      const float s = weights_[static_cast<std::size_t>(i + g)] * log2_scale_;
      weights_[static_cast<std::size_t>(i + g)] = s;
      block_max[g] = s > block_max[g] ? s : block_max[g];
    }
  }
  for (std::int64_t i = 0; i < used; i += lanes_) {
    float* const row = weights_.data() + i;
    for (std::int64_t g = 0; g < lanes_; ++g) row[g] = exp2_contract(row[g] - block_max[g]);
  }
  std::fill(weights_.begin() + used, weights_.end(), 0.0F);

  const float* const e = weights_.data();
  for (std::int64_t l = 0; l < 32; ++l) {
    for (std::int64_t g = 0; g < lanes_; ++g) {
      const float* const four = e + 4 * l * lanes_ + g;
      lane_sums_[static_cast<std::size_t>(l * lanes_ + g)] =
          ((four[0] + four[lanes_]) + four[2 * lanes_]) + four[3 * lanes_];
    }
  }
  for (std::int64_t m = 16 * lanes_; m >= lanes_; m /= 2) {
    float* const p = lane_sums_.data();
    for (std::int64_t i = 0; i < m; ++i) p[i] = p[i] + p[i + m];
  }
  std::copy_n(lane_sums_.begin(), lanes_, block_sum);
  round_to_model_dtype(model_dtype_, std::span(weights_).first(static_cast<std::size_t>(used)));
}

void GroupAttention::add_values(std::span<const std::int32_t> folded_ids, std::int64_t live,
                                float* block_out) {
  std::fill_n(block_out, kHeadDim * lanes_, 0.0F);
  for (std::int64_t first = 0; first < live; first += kPageSize) {
    v_pages_.read(folded_ids[static_cast<std::size_t>(first / kPageSize)],
                  std::span<float, kPagePlane>(page_));
    fma_chains(page_.data(), v_layout_, kHeadDim, std::min(kPageSize, live - first),
               weights_.data() + first * lanes_, lanes_, lanes_, block_out, lanes_);
  }
}

void GroupAttention::merge(std::int64_t blocks, std::span<std::uint16_t> out) {
  const auto lanes = static_cast<std::size_t>(lanes_);
  Floats maximum(maxima_.begin(), maxima_.begin() + lanes_);
  for (std::size_t i = 0; i < floats(blocks, lanes_); ++i) {
    maximum[i % lanes] = std::max(maximum[i % lanes], maxima_[i]);
  }
  Floats length(lanes, 0.0F);
  Floats total(floats(kHeadDim, lanes_), 0.0F);
  for (std::int64_t n = 0; n < blocks; ++n) {
    const float* const block_out = outputs_.data() + n * kHeadDim * lanes_;
    Floats weight(lanes);
    for (std::size_t g = 0; g < lanes; ++g) {
      weight[g] = exp2_contract(maxima_[floats(n, lanes_) + g] - maximum[g]);
      length[g] = std::fma(weight[g], sums_[floats(n, lanes_) + g], length[g]);
    }
    for (std::size_t i = 0; i < total.size(); i += lanes) {
      for (std::size_t g = 0; g < lanes; ++g) {
        total[i + g] = std::fma(weight[g], block_out[i + g], total[i + g]);
      }
    }
  }
  for (std::size_t g = 0; g < static_cast<std::size_t>(group_); ++g) {
    for (std::size_t d = 0; d < static_cast<std::size_t>(kHeadDim); ++d) {
      out[g * kHeadDim + d] = to_model_dtype(model_dtype_, total[d * lanes + g] / length[g]);
    }
  }
}

void GroupAttention::run(std::span<const std::int32_t> folded_ids, std::int64_t length,
                         std::span<const std::uint16_t> q, std::span<std::uint16_t> out) {
  const std::int64_t blocks = (length + kBlockSize - 1) / kBlockSize;
  if (blocks == 0) {
    std::fill(out.begin(), out.end(), std::uint16_t{0});
    return;
  }
  maxima_.resize(floats(blocks, lanes_));
  sums_.resize(floats(blocks, lanes_));
  outputs_.resize(floats(blocks, kHeadDim * lanes_));
  load_queries(q);
  for (std::int64_t n = 0; n < blocks; ++n) {
    const auto ids = folded_ids.subspan(static_cast<std::size_t>(n * kPagesPerBlock),
                                        static_cast<std::size_t>(kPagesPerBlock));
    const std::int64_t live = std::min(kBlockSize, length - n * kBlockSize);
    score_block(ids, live);
    weigh_block(live, maxima_.data() + n * lanes_, sums_.data() + n * lanes_);
    add_values(ids, live, outputs_.data() + n * kHeadDim * lanes_);
  }
  merge(blocks, out);
}

}  // namespace

Tensor sparse_attention(const LayerCall& call, const Tensor& q, const Tensor& k_pool,
                        const Tensor& v_pool, const SparseBlockTable& table, int threads) {
  const LayerConfig& config = call.config;
  Tensor output =
      Tensor::allocate(call.model_dtype(), {config.num_tokens, config.num_heads, kHeadDim});
  const CachePages k_pages(call, k_pool, false);
  const CachePages v_pages(call, v_pool, true);
  const auto width = static_cast<std::size_t>(table.table.dim(1));
  const auto group_elements =
      static_cast<std::size_t>(config.num_heads / config.num_kv_heads * kHeadDim);
  parallel_for(
      config.num_tokens * config.num_kv_heads, threads, [&](std::int64_t begin, std::int64_t end) {
        GroupAttention attention(call, k_pages, v_pages);
        for (auto row = static_cast<std::size_t>(begin); row < static_cast<std::size_t>(end);
             ++row) {
          // Row t*nkv + h of the table is also the group's place among the query heads.
          attention.run(table.table.as<std::int32_t>().subspan(row * width, width),
                        table.context_lens.as<std::int32_t>()[row],
                        q.as<std::uint16_t>().subspan(row * group_elements, group_elements),
                        output.as<std::uint16_t>().subspan(row * group_elements, group_elements));
        }
      });
  return output;
}

}  // namespace zerodiff::reference
