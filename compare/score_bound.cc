#include "compare/score_bound.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "reference/number_formats.h"
#include "reference/parallel.h"
#include "reference/visible_blocks.h"

namespace zerodiff::compare {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUnderflow = 128 * 0x1p-150;
constexpr double kSlack = 1 + 0x1p-30;
constexpr double kUnit = 0x1p-24;
constexpr double kLog2E = 1.4426950408889634;
constexpr double kOverflow = std::numeric_limits<float>::max() / 8;
// Queries whose dots with a block are formed at once.
constexpr std::int64_t kQueries = 64;

using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Rows of 128 elements as numbers.
void decode(const Tensor& tensor, std::int64_t first_row, std::int64_t rows, Rows& out) {
  out.resize(rows, kHeadDim);
  const auto start = static_cast<std::size_t>(first_row * kHeadDim);
  const auto count = static_cast<std::size_t>(rows * kHeadDim);
  double* const values = out.data();
  if (is_fp8(tensor.type())) {
    const auto& decoded = reference::fp8_values(tensor.type());
    const auto codes = tensor.as<std::uint8_t>().subspan(start, count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<double>(decoded[codes[i]]);
    return;
  }
  const auto bits = tensor.as<std::uint16_t>().subspan(start, count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<double>(reference::from_model_dtype(tensor.type(), bits[i]));
  }
}

struct Dots {
  Eigen::MatrixXd sums;   // [128 positions][queries]
  Eigen::MatrixXd sizes;  // of the products
};

class ScoreWork {
 public:
  ScoreWork(const LayerCall& call, const Tensor& index_q, const Tensor& index_cache,
            Accumulator accumulator, ScoreIntervals& result)
      : call_(call),
        index_q_(index_q),
        index_cache_(index_cache),
        lost_(accumulated_roundings(accumulator, 128) / 2),
        result_(result) {}

  // Block `block` of a request, for the request's rows that see it.
  void run(std::int64_t request, std::int64_t block);

 private:
  ScoreInterval interval(std::int64_t query, std::int64_t live) const;

  const LayerCall& call_;
  const Tensor& index_q_;
  const Tensor& index_cache_;
  double lost_;
  ScoreIntervals& result_;
  Rows keys_;
  Rows queries_;
  Dots dots_;
};

ScoreInterval ScoreWork::interval(std::int64_t query, std::int64_t live) const {
  ScoreInterval block{-kInfinity, -kInfinity, -kInfinity};
  bool any_number = false;
  for (std::int64_t j = 0; j < live; ++j) {
    const double dot = dots_.sums(j, query);
    const double size = dots_.sizes(j, query) * kSlack;
    if (size > kOverflow) {
      // In some order an infinity, of either sign, or NaN, which the maximum passes over.
      block.high = kInfinity;
      block.exact = dot > block.exact ? dot : block.exact;
      any_number = true;
    } else if (!std::isnan(dot)) {
      const double error = lost_ * (size + std::fabs(dot)) + kUnderflow;
      block = {std::max(block.low, dot - error), std::max(block.exact, dot),
               std::max(block.high, dot + error)};
      any_number = true;
    }
  }
  if (any_number) return block;
  const double nan = std::nan("");
  return {nan, nan, nan};
}

void ScoreWork::run(std::int64_t request, std::int64_t block) {
  const auto starts = call_.query_start_loc.as<std::int32_t>();
  const std::int64_t end = starts[static_cast<std::size_t>(request) + 1];
  const std::int64_t heads = call_.config.num_index_heads;
  const std::int64_t rows_at_once = std::max<std::int64_t>(1, kQueries / heads);
  decode(index_cache_, reference::pool_block(call_, request, block) * kBlockSize, kBlockSize,
         keys_);
  const Rows key_sizes = keys_.cwiseAbs();
  for (std::int64_t first = starts[static_cast<std::size_t>(request)]; first < end;
       first += rows_at_once) {
    const std::int64_t rows = std::min(rows_at_once, end - first);
    decode(index_q_, first * heads, rows * heads, queries_);
    dots_.sums.noalias() = keys_ * queries_.transpose();
    dots_.sizes.noalias() = key_sizes * queries_.cwiseAbs().transpose();
    for (std::int64_t row = first; row < first + rows; ++row) {
      if (block >= reference::visible_blocks(call_, row)) continue;
      const std::int64_t live =
          std::min(kBlockSize, reference::position_of(call_, row) + 1 - block * kBlockSize);
      for (std::int64_t head = 0; head < heads; ++head) {
        result_.elements[static_cast<std::size_t>((head * result_.tokens + row) * result_.blocks +
                                                  block)] =
            interval((row - first) * heads + head, live);
      }
    }
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
      most = std::max(most, reference::visible_blocks(call, row));
    }
    for (std::int64_t block = 0; block < most; ++block) {
      work.push_back({static_cast<std::int64_t>(request), block});
    }
  }
  return work;
}

void check_score(std::int64_t flat, double got, const ScoreInterval& wanted, double factor,
                 HeadroomCollector& collector) {
  const double exact = wanted.exact * factor;
  if (std::isnan(exact) || std::isnan(got) || std::isinf(exact)) {
    const bool same = std::isnan(exact) ? std::isnan(got) : got == exact;
    if (!same && wanted.high == kInfinity) return collector.add_unbounded();
    return collector.add(flat, got, exact, 0, same ? 0 : kInfinity);
  }
  if (wanted.high == kInfinity) return collector.add_unbounded();
  const double scaling = factor == 1 ? 0 : 4 * kUnit * std::fabs(exact);
  const double side =
      got >= exact ? (wanted.high - wanted.exact) * factor : (wanted.exact - wanted.low) * factor;
  const double bound = side + scaling;
  const double error = std::fabs(got - exact);
  collector.add(flat, got, exact, bound, error == 0 ? 0 : error / bound);
}

Headroom held_against(const ScoreIntervals& intervals, std::span<const float> scores,
                      double factor) {
  HeadroomCollector collector;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    check_score(static_cast<std::int64_t>(i), static_cast<double>(scores[i]), intervals.elements[i],
                factor, collector);
  }
  return collector.result();
}

}  // namespace

ScoreIntervals score_intervals(const LayerCall& call, const Tensor& index_q,
                               const Tensor& index_cache, Accumulator accumulator, int threads) {
  ScoreIntervals result;
  result.tokens = call.config.num_tokens;
  result.blocks = call.block_table.dim(1);
  result.elements.assign(
      static_cast<std::size_t>(call.config.num_kv_heads * result.tokens * result.blocks),
      {-kInfinity, -kInfinity, -kInfinity});
  const std::vector<RequestBlock> blocks = visible_request_blocks(call);
  reference::parallel_for(static_cast<std::int64_t>(blocks.size()), threads,
                          [&](std::int64_t begin, std::int64_t end) {
                            ScoreWork work(call, index_q, index_cache, accumulator, result);
                            for (std::int64_t i = begin; i < end; ++i) {
                              const auto [request, block] = blocks[static_cast<std::size_t>(i)];
                              work.run(request, block);
                            }
                          });
  return result;
}

ScoreCheck check_scores(const LayerCall& call, const ScoreIntervals& intervals,
                        const Tensor& index_score) {
  const auto scores = index_score.as<float>();
  ScoreCheck plain{held_against(intervals, scores, 1), false};
  if (plain.headroom.outside == 0) return plain;
  const double factor = static_cast<double>(call.config.sm_scale) * kLog2E;
  ScoreCheck scaled{held_against(intervals, scores, factor), true};
  return scaled.headroom.outside < plain.headroom.outside ? scaled : plain;
}

}  // namespace zerodiff::compare
