// What the operations of selftest_kernels.hip.h must give, evaluated in binary64 on the CPU. Shares
// nothing with the kernels.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace zerodiff::device {

// binary32 results, rounded once to nearest, ties to even; denormals are kept. plain_separate is
// a*b + c with the product rounded before the sum.
float plain_root(float a);
float plain_quotient(float a, float b);
float plain_fma(float a, float b, float c);
float plain_separate(float a, float b, float c);

// The sum of 128 values in the contract's order (numerics.md section 0).
float plain_sum128(const float* values);

// A narrow float format. Magnitudes are codes 0 .. `largest`, in order; what lies behind depends on
// the format.
struct PlainFormat {
  std::string_view name;
  int bits = 16;
  int mantissa_bits = 0;
  int bias = 0;
  std::uint32_t largest = 0;
  bool has_infinity = false;  // code largest + 1
  bool fnuz = false;          // the sign alone is NaN, and there is no negative zero

  std::uint32_t sign() const { return 1U << (bits - 1); }
  bool is_nan(std::uint32_t code) const;
};

inline constexpr PlainFormat kPlainBFloat16{"bfloat16", 16, 7, 127, 0x7F7F, true, false};
inline constexpr PlainFormat kPlainFloat16{"float16", 16, 10, 15, 0x7BFF, true, false};

// What becomes of magnitudes that round past `largest`.
enum class PlainOverflow : std::uint8_t { saturate, infinity, nan };

// Converts by table look-up.
class PlainConverter {
 public:
  explicit PlainConverter(const PlainFormat& format);

  const PlainFormat& format() const { return format_; }
  float decode(std::uint32_t code) const;
  // Nearest, ties to even; any code of a NaN for a NaN.
  std::uint32_t encode(float value, PlainOverflow overflow) const;

  // Every value, every tie between two, and the binary32 neighbours of both; and what lies outside
  // of any format. With both signs.
  std::vector<float> critical_inputs() const;

 private:
  std::uint32_t nan_code() const { return format_.fnuz ? format_.sign() : format_.sign() - 1; }

  PlainFormat format_;
  std::vector<double> magnitudes_;  // of codes 0 .. largest + 1
};

}  // namespace zerodiff::device
