#include "device/selftest/plain_arithmetic.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace zerodiff::device {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// a + b in binary64, rounded to odd: rounding that to binary32 rounds the exact sum once.
double odd_sum(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double b_part = sum - a;
  const double error = (a - (sum - b_part)) + (b - b_part);
  if (error == 0 || (std::bit_cast<std::uint64_t>(sum) & 1) != 0) return sum;
  return std::nextafter(sum, error > 0 ? kInfinity : -kInfinity);
}

}  // namespace

// Rounding twice does no harm to roots, quotients and sums of binary32 numbers: binary64 has more
// than twice their places, and a quotient cannot come near a tie of fewer places without being one.
float plain_root(float a) {
  return static_cast<float>(std::sqrt(static_cast<double>(a)));
}

float plain_quotient(float a, float b) {
  return static_cast<float>(static_cast<double>(a) / static_cast<double>(b));
}

float plain_fma(float a, float b, float c) {
  return static_cast<float>(
      odd_sum(static_cast<double>(a) * static_cast<double>(b), static_cast<double>(c)));
}

float plain_separate(float a, float b, float c) {
  const auto product = static_cast<float>(static_cast<double>(a) * static_cast<double>(b));
  return static_cast<float>(static_cast<double>(product) + static_cast<double>(c));
}

float plain_sum128(const float* values) {
  std::array<float, 32> partial{};
  for (std::size_t i = 0; i < 32; ++i) {
    const float* const four = values + 4 * i;
    partial[i] = ((four[0] + four[1]) + four[2]) + four[3];
  }
  for (std::size_t width = 16; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) partial[i] = partial[i] + partial[i + width];
  }
  return partial[0];
}

bool PlainFormat::is_nan(std::uint32_t code) const {
  if (fnuz) return code == sign();
  return (code & (sign() - 1)) > largest + (has_infinity ? 1 : 0);
}

PlainConverter::PlainConverter(const PlainFormat& format) : format_(format) {
  for (std::uint32_t code = 0; code <= format.largest + 1; ++code) {
    const auto exponent = static_cast<int>(code >> format.mantissa_bits);
    const double mantissa =
        std::ldexp(code & ((1U << format.mantissa_bits) - 1), -format.mantissa_bits);
    magnitudes_.push_back(exponent == 0 ? std::ldexp(mantissa, 1 - format.bias)
                                        : std::ldexp(1 + mantissa, exponent - format.bias));
  }
}

float PlainConverter::decode(std::uint32_t code) const {
  if (format_.is_nan(code)) return std::numeric_limits<float>::quiet_NaN();
  const std::uint32_t magnitude = code & (format_.sign() - 1);
  const double value = magnitude > format_.largest ? kInfinity : magnitudes_[magnitude];
  return static_cast<float>(magnitude == code ? value : -value);
}

std::uint32_t PlainConverter::encode(float value, PlainOverflow overflow) const {
  if (std::isnan(value)) return nan_code();
  const double magnitude = std::fabs(static_cast<double>(value));
  const auto above = std::lower_bound(magnitudes_.begin(), magnitudes_.end(), magnitude);
  auto code = static_cast<std::uint32_t>(above - magnitudes_.begin());
  if (code != 0 && above != magnitudes_.end()) {
    const double up = *above - magnitude;
    const double down = magnitude - magnitudes_[code - 1];
    if (down < up || (down == up && code % 2 != 0)) --code;
  }
  if (code > format_.largest) {
    if (overflow == PlainOverflow::nan)
      return nan_code() | (std::signbit(value) ? format_.sign() : 0);
    code = overflow == PlainOverflow::saturate ? format_.largest : format_.largest + 1;
  }
  const bool negative = std::signbit(value) && !(format_.fnuz && code == 0);
  return code | (negative ? format_.sign() : 0);
}

std::vector<float> PlainConverter::critical_inputs() const {
  using Limits = std::numeric_limits<float>;
  std::vector<float> inputs{0.0F,  Limits::denorm_min(), Limits::min(),      1e-30F,
                            1e30F, Limits::max(),        Limits::infinity(), Limits::quiet_NaN()};
  for (std::size_t i = 0; i + 1 < magnitudes_.size(); ++i) {
    for (const double centre : {magnitudes_[i], (magnitudes_[i] + magnitudes_[i + 1]) / 2}) {
      const auto value = static_cast<float>(centre);
      inputs.insert(inputs.end(),
                    {value, std::nextafterf(value, 0), std::nextafterf(value, Limits::infinity())});
    }
  }
  const std::size_t positive = inputs.size();
  for (std::size_t i = 0; i < positive; ++i) inputs.push_back(-inputs[i]);
  return inputs;
}

}  // namespace zerodiff::device
