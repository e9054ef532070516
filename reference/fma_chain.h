// Chains acc = fma(a, b, acc) in the contract's order, several at a time (numerics.md section 0):
// vectorised across independent sums, never inside one.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace zerodiff::reference {

using Lanes = Eigen::internal::packet_traits<float>::type;
inline constexpr int kLanes = Eigen::internal::packet_traits<float>::size;

// Rounds a count up to whole vectors.
constexpr std::int64_t padded_to_lanes(std::int64_t count) {
  return (count + kLanes - 1) / kLanes * kLanes;
}

inline Lanes fused_multiply_add(const Lanes& a, const Lanes& b, const Lanes& c) {
#ifdef EIGEN_VECTORIZE_FMA
  return Eigen::internal::pmadd(a, b, c);
#else
  alignas(64) float x[kLanes];
  alignas(64) float y[kLanes];
  alignas(64) float z[kLanes];
  Eigen::internal::pstoreu(x, a);
  Eigen::internal::pstoreu(y, b);
  Eigen::internal::pstoreu(z, c);
  for (std::int64_t i = 0; i < kLanes; ++i) z[i] = std::fma(x[i], y[i], z[i]);
  return Eigen::internal::ploadu<Lanes>(z);
#endif
}

// Where the factor of (row, k) lies: element row * row_stride + (k / inner) * outer_stride + k %
// inner. Both page layouts of the caches have this form, and so has a plain matrix.
struct FactorLayout {
  std::int64_t row_stride = 0;
  std::int64_t inner = 0;
  std::int64_t outer_stride = 0;
};

// sums[row][lane] = fma over k = 0..depth-1 in order of a(row, k) * b[k][lane], from what sums
// holds, for `Rows` rows and `Vectors` vectors of lanes. b and sums have `b_stride` and
// `sums_stride` floats a row.
template <int Rows, int Vectors>
void fma_chains(const float* a, const FactorLayout& layout, std::int64_t depth, const float* b,
                std::int64_t b_stride, float* sums, std::int64_t sums_stride) {
  namespace packet = Eigen::internal;
  Lanes acc[Rows][Vectors];
  for (int row = 0; row < Rows; ++row) {
    for (int v = 0; v < Vectors; ++v) {
      acc[row][v] = packet::ploadu<Lanes>(sums + row * sums_stride + v * kLanes);
    }
  }
  for (std::int64_t start = 0; start < depth; start += layout.inner) {
    const float* factors = a + start / layout.inner * layout.outer_stride;
    const std::int64_t end = std::min(layout.inner, depth - start);
    for (std::int64_t k = 0; k < end; ++k, b += b_stride) {
      for (int row = 0; row < Rows; ++row) {
        const auto factor = packet::pset1<Lanes>(factors[row * layout.row_stride + k]);
        for (int v = 0; v < Vectors; ++v) {
          acc[row][v] =
              fused_multiply_add(factor, packet::ploadu<Lanes>(b + v * kLanes), acc[row][v]);
        }
      }
    }
  }
  for (int row = 0; row < Rows; ++row) {
    for (int v = 0; v < Vectors; ++v) {
      packet::pstoreu(sums + row * sums_stride + v * kLanes, acc[row][v]);
    }
  }
}

// The same for any number of rows and of whole vectors of lanes (`lanes` a multiple of kLanes).
inline void fma_chains(const float* a, const FactorLayout& layout, std::int64_t rows,
                       std::int64_t depth, const float* b, std::int64_t lanes,
                       std::int64_t b_stride, float* sums, std::int64_t sums_stride) {
  for (std::int64_t lane = 0; lane < lanes;) {
    const bool pair = lane + 2 * kLanes <= lanes;
    for (std::int64_t row = 0; row < rows;) {
      const float* const a_row = a + row * layout.row_stride;
      float* const target = sums + row * sums_stride + lane;
      const bool four = row + 4 <= rows;
      if (pair && four) {
        fma_chains<4, 2>(a_row, layout, depth, b + lane, b_stride, target, sums_stride);
      } else if (pair) {
        fma_chains<1, 2>(a_row, layout, depth, b + lane, b_stride, target, sums_stride);
      } else if (four) {
        fma_chains<4, 1>(a_row, layout, depth, b + lane, b_stride, target, sums_stride);
      } else {
        fma_chains<1, 1>(a_row, layout, depth, b + lane, b_stride, target, sums_stride);
      }
      row += four ? 4 : 1;
    }
    lane += pair ? 2 * kLanes : kLanes;
  }
}

}  // namespace zerodiff::reference
