// Stage qk_norm_rope: Gemma RMSNorm and partial RoPE of one head at a time (numerics.md sections 3
// and 4), up to the unrounded fp32 z. Materialisation (section 5) is in reference/materialise.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "fixtures/layer_call.h"
#include "reference/choices.h"

namespace zerodiff::reference {

using HeadSpan = std::span<float, kHeadDim>;
using ConstHeadSpan = std::span<const float, kHeadDim>;

// cos and sin of one position, decoded; the first rotary_dim/2 entries of each are in use.
struct RopeRow {
  std::array<float, kHeadDim / 2> cos;
  std::array<float, kHeadDim / 2> sin;
  std::int64_t half = 0;  // rotary_dim / 2
};

// The table of a call. A negative position reads as 0.
class RopeTable {
 public:
  explicit RopeTable(const LayerCall& call);

  // The row of a position. A table that holds only some rows (cos_sin_rows) and not row 0 gives the
  // identity rotation for a negative position; any other missing row is a programmer error, as
  // check_layer_call rejects it.
  RopeRow row(std::int64_t position) const;

 private:
  const LayerCall* call_;
  std::int64_t table_row(std::int64_t position) const;
};

// ss: the sum of the squares, each square rounded once, in the chosen order.
float sum_of_squares(ConstHeadSpan x, SumsqOrder order);

// r = 1 / sqrt(ss * 2^-7 + eps), every operation rounded once, then moved by rsqrt_ulp steps.
float reciprocal_rms(float ss, float eps, int rsqrt_ulp);

// The same for many heads: r replaces ss in place.
void reciprocal_rms(std::span<float> ss, float eps, int rsqrt_ulp);

// y[i] = (x[i] * r) * one_plus_weight[i], in place.
void apply_norm(HeadSpan x, float r, ConstHeadSpan one_plus_weight);

// z from y, in place; dims at and past 2 * rope.half pass through.
void apply_rope(HeadSpan y, const RopeRow& rope, RopeContraction contraction);

// 1 + w of a weight tensor, each sum rounded once; zeros if the tensor is absent.
std::array<float, kHeadDim> one_plus(const Tensor& weight);

// Dims i and i + half of one head.
struct RotatedPair {
  float low;
  float high;
};
// z of one pair, apply_rope's arithmetic.
RotatedPair rotate_pair(float low, float high, float cos, float sin, RopeContraction contraction);

// One packed row after the stage: fp32 z of every normalised head, and v as it came.
struct RotatedRow {
  std::vector<float> q;              // [nq * 128]
  std::vector<float> k;              // [nkv * 128]
  std::vector<float> index_q;        // [niq * 128]; empty with skip_index_branch
  std::vector<float> index_k;        // [128]; empty with skip_index_branch
  std::span<const std::uint16_t> v;  // [nkv * 128] bits of the model dtype, inside call.qkv
};

// The stage over the rows of one call, which must outlive it. Const and thread-safe.
class QkNormRope {
 public:
  explicit QkNormRope(const LayerCall& call, const Choices& choices = {});

  // Row `t` of the batch (padding and empty rows included); `out` is resized and overwritten.
  void rotate_row(std::int64_t t, RotatedRow& out) const;

  // Its parts: q alone, and everything but q (out.q is left as it was).
  void rotate_q(std::int64_t t, std::vector<float>& q) const;
  void rotate_row_without_q(std::int64_t t, RotatedRow& out) const;

  // The row's q as the call's kernels see it: [nq * 128] bits of the packed row.
  std::span<const std::uint16_t> q_bits(std::int64_t t) const;

  // cos and sin of row t.
  RopeRow rope_row(std::int64_t t) const;

  ConstHeadSpan one_plus_q_weight() const { return one_plus_q_weight_; }

 private:
  using HeadArray = std::array<float, kHeadDim>;
  std::span<const std::uint16_t> packed_row(std::int64_t t) const;
  void rotate_heads(std::span<const std::uint16_t> bits, const HeadArray& one_plus_weight,
                    const RopeRow& rope, std::vector<float>& out) const;
  void finish_head(HeadSpan head, float r, ConstHeadSpan one_plus_weight,
                   const RopeRow& rope) const;

  const LayerCall* call_;
  Choices choices_;
  RopeTable rope_table_;
  HeadArray one_plus_q_weight_;
  HeadArray one_plus_k_weight_;
  HeadArray one_plus_index_q_weight_;
  HeadArray one_plus_index_k_weight_;
};

}  // namespace zerodiff::reference
