// lane_sum128: the canonical sum of 128 values (numerics.md section 0).
#pragma once

#include <cstring>
#include <span>

#include "fixtures/layer_config.h"

namespace zerodiff::reference {

namespace detail {

typedef float Eight
    __attribute__((vector_size(32)));  // 8 floats; the compiler splits them if need be

inline Eight load_eight(const float* values) {
  Eight result;
  std::memcpy(&result, values, sizeof result);
  return result;
}

// p of 8 neighbouring lanes from their 32 terms, in the order 0 2 4 6 1 3 5 7: a 4 x 4 transpose
// inside each half of the vectors.
template <class Term>
inline Eight partial_sums(const float* v, Term term) {
  const Eight a = term(load_eight(v));
  const Eight b = term(load_eight(v + 8));
  const Eight c = term(load_eight(v + 16));
  const Eight d = term(load_eight(v + 24));
  const Eight ab_low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
  const Eight ab_high = __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
  const Eight cd_low = __builtin_shufflevector(c, d, 0, 8, 1, 9, 4, 12, 5, 13);
  const Eight cd_high = __builtin_shufflevector(c, d, 2, 10, 3, 11, 6, 14, 7, 15);
  const Eight first = __builtin_shufflevector(ab_low, cd_low, 0, 1, 8, 9, 4, 5, 12, 13);
  const Eight second = __builtin_shufflevector(ab_low, cd_low, 2, 3, 10, 11, 6, 7, 14, 15);
  const Eight third = __builtin_shufflevector(ab_high, cd_high, 0, 1, 8, 9, 4, 5, 12, 13);
  const Eight fourth = __builtin_shufflevector(ab_high, cd_high, 2, 3, 10, 11, 6, 7, 14, 15);
  return ((first + second) + third) + fourth;
}

// lane_sum128 of term(v[i]).
template <class Term>
inline float lane_sum128(std::span<const float, kHeadDim> v, Term term) {
  const Eight even = partial_sums(v.data(), term) + partial_sums(v.data() + 64, term);
  const Eight odd = partial_sums(v.data() + 32, term) + partial_sums(v.data() + 96, term);
  const Eight p = even + odd;  // lanes 0 2 4 6 1 3 5 7
  const float p0 = (p[0] + p[2]) + (p[1] + p[3]);
  const float p1 = (p[4] + p[6]) + (p[5] + p[7]);
  return p0 + p1;
}

}  // namespace detail

// Lane l of 32 adds values 4l..4l+3 left to right; then halves are folded 16, 8, 4, 2, 1 apart.
inline float lane_sum128(std::span<const float, kHeadDim> v) {
  return detail::lane_sum128(v, [](detail::Eight x) { return x; });
}

// The same of the squares, each rounded once.
inline float lane_sum128_of_squares(std::span<const float, kHeadDim> v) {
  return detail::lane_sum128(v, [](detail::Eight x) { return x * x; });
}

}  // namespace zerodiff::reference
