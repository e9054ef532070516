// Exact attention of one row of a sparse block table, and how far a right kernel may be from it.
//
// The exact value is softmax over the row's tokens in binary64. The bound holds for every kernel
// that adds in any order and any width of tile, rescales when its running maximum rises, splits
// the row and merges the splits by weights or by log-sum-exp (docs/numerics.md section 17 derives
// it with reasons; u = 2^-24, a = unit roundoff of the accumulator, n tokens in N blocks).
//
// Score of token i: d = sum q k, A >= sum |q k| (by Cauchy-Schwarz over every 8 or 16 dims),
// c = sm_scale log2(e), s = c d:
//   E_i = c e(128) (A + |d|) / 2 + 4 u |s|            e(m) = m a / (1 - m a)
// Weight y_i = 2^(s_i - M), M = max s, S = max |s|. Scores, maxima, and logarithms of sums are
// rounded, which moves the exponent by at most
//   h_i = E_i + 3 u (M - s_i) + 10 u (S + log2 n)
// and each of at most 1 + 9 N exponentials (one a token, one a page where the maximum rises, one a
// block where splits merge) errs by 2 ulp, of 2^-23:
//   r_i = 2^(h_i) (1 + 2^-22)^(1 + 9 N) - 1
// P is rounded with unit roundoff v, half a smallest step g; sums have m = n + 9 N terms:
//   |O' - O| <= sum |V_i| (y_i (r_i + e(m) / 2) + max(v y_i, g) (1 + r_i) + 2^-100)
//               + |O| e(m) / 2                                                          =: EO
//   |L' - L| <= sum y_i r_i + L e(m)                                                    =: EL
// x = O / L, divided and merged with at most 8 roundings, then rounded to the model dtype:
//   E = (EO + |x| EL) / (L - EL) + 8 u |x|,       bound = E + half a step at |x| + E
//
// Binary64's own errors (2^-44 of the sums of sizes) and those of the sums of sizes (binary32, at
// most 2^-12) are covered by kSlack.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compare/accumulate_rules.h"
#include "compare/block_reader.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// Rounding of a weight of V: relative, and at least this much below the normal range.
struct WeightRounding {
  double unit = 0;       // v
  double half_step = 0;  // g
};
WeightRounding weight_rounding(PDtype p_dtype, ElementType model_dtype);

// Half the distance between neighbouring values of the model dtype at a size.
double half_step_at(ElementType model_dtype, double size);

// What a wrong kernel does otherwise (attention_hypotheses.h); the default is the contract.
struct AttentionChange {
  double scale_factor = 1;  // of the scores
  double dead_tokens = 0;   // of score 0, in the denominator only
  double output_factor = 1;
  std::optional<WeightRounding> weights = std::nullopt;  // of P, whatever the rules say
};

// What evaluate() found, one column a query head of the group.
struct RowBound {
  std::int64_t tokens = 0;
  Eigen::MatrixXd exact;    // [128][group]
  Eigen::MatrixXd bound;    // [128][group]
  Eigen::MatrixXd weights;  // [>= tokens][group]: y, which the first `tokens` rows hold
  Eigen::VectorXd sums;     // [group]: L; y / L is the softmax
  Eigen::VectorXd largest;  // [group]: M
  // Whether binary32 may overflow on the way: then a right kernel may have infinities or NaN.
  Eigen::Matrix<bool, Eigen::Dynamic, Eigen::Dynamic> may_overflow;  // [128][group]
};

// Working space for one thread.
class AttentionBound {
 public:
  // The pools and the call must outlive it. block_contiguous storage: the same pool twice.
  AttentionBound(const LayerCall& call, const Tensor& k_pool, const Tensor& v_pool,
                 const AccumulateRules& rules, const AttentionChange& change = {});

  // folded_ids: a row of the table, whose pages the pools must hold; length: its live tokens, at
  // least 1; q: [group * 128]. The result holds until the next call.
  const RowBound& evaluate(std::span<const std::int32_t> folded_ids, std::int64_t length,
                           std::span<const std::uint16_t> q);

  // AttentionChange::dead_tokens of the rows from now on.
  void set_dead_tokens(double count) { change_.dead_tokens = count; }

  // V of the live tokens of block `n` of a row, [tokens][128]; holds until the next call.
  const BlockValues& values(std::span<const std::int32_t> folded_ids, std::int64_t length,
                            std::int64_t n);

 private:
  void load_queries(std::span<const std::uint16_t> q);
  void score(std::span<const std::int32_t> folded_ids, std::int64_t length);
  void weigh(std::int64_t head, std::int64_t length);
  void relative_errors(const double* scores, const float* reach, double largest,
                       std::int64_t length);
  void add_values(std::span<const std::int32_t> folded_ids, std::int64_t length);
  void finish(std::int64_t head, std::int64_t length);

  ElementType model_dtype_;
  AccumulateRules rules_;
  AttentionChange change_;
  BlockReader blocks_;
  std::int64_t group_;
  double log2_scale_;  // c
  WeightRounding p_;
  Eigen::MatrixXd queries_;            // [128][group]
  Eigen::MatrixXf q_norms_;            // [128 / x][group]: of every x dims of q
  Eigen::MatrixXf reach_;              // [tokens][group]: A, then the terms of EO
  Eigen::MatrixXf errors_;             // [128][group]: the sum of EO
  Eigen::VectorXd errors_of_weights_;  // [tokens]: r of one head
  Eigen::VectorXd sum_error_;          // [group]: EL
  Eigen::VectorXf largest_v_;          // [128]
  std::vector<bool> score_overflow_;
  PackedMatrix<double>::Elements packed_doubles_;
  PackedMatrix<float>::Elements packed_floats_;
  RowBound row_;
};

}  // namespace zerodiff::compare
