// binary32 arithmetic by MPFR: every operation exact, then rounded once, subnormals included.
// Independent of the processor, the compiler and their flags.
#pragma once

#include <mpfr.h>

#include <cmath>

namespace zerodiff::test {

// Sets MPFR's exponent range to that of binary32 for its lifetime (the range is a global).
class Binary32Range {
 public:
  Binary32Range() : emin_(mpfr_get_emin()), emax_(mpfr_get_emax()) {
    mpfr_set_emin(-148);  // MPFR counts mantissas in [1/2, 1)
    mpfr_set_emax(128);
  }
  ~Binary32Range() {
    mpfr_set_emin(emin_);
    mpfr_set_emax(emax_);
  }
  Binary32Range(const Binary32Range&) = delete;
  Binary32Range& operator=(const Binary32Range&) = delete;

 private:
  mpfr_exp_t emin_;
  mpfr_exp_t emax_;
};

// A value of 24 bits. Made from a float it is exact, and so is the float made from it.
class Binary32 {
 public:
  Binary32(float value) {  // NOLINT(google-explicit-constructor): mixes with float operands
    mpfr_init2(value_, 24);
    mpfr_set_flt(value_, value, MPFR_RNDN);
  }
  Binary32(const Binary32& other) : Binary32(other.to_float()) {}
  Binary32& operator=(const Binary32& other) {
    mpfr_set(value_, other.value_, MPFR_RNDN);
    return *this;
  }
  ~Binary32() { mpfr_clear(value_); }

  float to_float() const { return mpfr_get_flt(value_, MPFR_RNDN); }

  friend Binary32 operator+(const Binary32& a, const Binary32& b) {
    return rounded([&](mpfr_t r) { return mpfr_add(r, a.value_, b.value_, MPFR_RNDN); });
  }
  friend Binary32 operator-(const Binary32& a, const Binary32& b) {
    return rounded([&](mpfr_t r) { return mpfr_sub(r, a.value_, b.value_, MPFR_RNDN); });
  }
  friend Binary32 operator*(const Binary32& a, const Binary32& b) {
    return rounded([&](mpfr_t r) { return mpfr_mul(r, a.value_, b.value_, MPFR_RNDN); });
  }
  friend Binary32 operator/(const Binary32& a, const Binary32& b) {
    return rounded([&](mpfr_t r) { return mpfr_div(r, a.value_, b.value_, MPFR_RNDN); });
  }
  Binary32 operator-() const {
    return rounded([&](mpfr_t r) { return mpfr_neg(r, value_, MPFR_RNDN); });
  }
  friend Binary32 sqrt(const Binary32& a) {
    return rounded([&](mpfr_t r) { return mpfr_sqrt(r, a.value_, MPFR_RNDN); });
  }
  friend Binary32 fma(const Binary32& a, const Binary32& b, const Binary32& c) {
    return rounded([&](mpfr_t r) { return mpfr_fma(r, a.value_, b.value_, c.value_, MPFR_RNDN); });
  }

 private:
  // `operation` rounds to 24 bits and returns MPFR's ternary value, which says how the result must
  // be rounded again if it is subnormal, without rounding twice.
  template <class Operation>
  static Binary32 rounded(Operation operation) {
    Binary32 result(0.0F);
    const int ternary = operation(result.value_);
    mpfr_subnormalize(result.value_, ternary, MPFR_RNDN);
    return result;
  }

  mpfr_t value_;
};

}  // namespace zerodiff::test
