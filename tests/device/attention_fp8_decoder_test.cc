// All codes of the four fp8 formats against the formats' definitions.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "device/kernels/fp8_decoder.hip.h"
#include "device/kernels/number_formats.hip.h"

namespace zerodiff::device {
namespace {

struct Format {
  std::string name;
  std::int32_t code;
  int mantissa_bits;
  int bias;
  bool fnuz;
};

const Format kFormats[] = {
    {"e4m3fn", kE4m3fn, 3, 7, false},
    {"e4m3fnuz", kE4m3fnuz, 3, 8, true},
    {"e5m2", kE5m2, 2, 15, false},
    {"e5m2fnuz", kE5m2fnuz, 2, 16, true},
};

double magnitude_of(const Format& format, std::uint32_t magnitude) {
  const auto exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const double fraction =
      std::ldexp(magnitude & ((1U << format.mantissa_bits) - 1), -format.mantissa_bits);
  return exponent == 0 ? std::ldexp(fraction, 1 - format.bias)
                       : std::ldexp(1 + fraction, exponent - format.bias);
}

bool is_nan_code(const Format& format, std::uint32_t code) {
  if (format.fnuz) return code == 0x80;
  return format.code == kE4m3fn ? (code & 0x7F) == 0x7F : (code & 0x7F) > 0x7C;
}

double wanted_value(const Format& format, std::uint32_t code) {
  const bool infinite = format.code == kE5m2 && (code & 0x7F) == 0x7C;
  const double magnitude =
      infinite ? std::numeric_limits<double>::infinity() : magnitude_of(format, code & 0x7F);
  return code & 0x80 ? -magnitude : magnitude;
}

class Fp8Decode : public testing::TestWithParam<Format> {};

TEST_P(Fp8Decode, KnowsEveryCode) {
  const Fp8Decoder decoder = make_fp8_decoder(GetParam().code);
  for (std::uint32_t code = 0; code <= 0xFF; ++code) {
    const float value = decoder.decode(static_cast<std::uint8_t>(code));
    if (is_nan_code(GetParam(), code)) {
      EXPECT_TRUE(std::isnan(value)) << code;
      continue;
    }
    EXPECT_EQ(value, wanted_value(GetParam(), code)) << code;
    EXPECT_EQ(std::signbit(value), code >= 0x80) << code;
  }
}

TEST_P(Fp8Decode, InvertsTheEncoder) {
  const Fp8Decoder decoder = make_fp8_decoder(GetParam().code);
  const Fp8Encoder encoder = make_fp8_encoder(GetParam().code, kOverflowToInfinity);
  for (std::uint32_t code = 0; code <= 0xFF; ++code) {
    if (is_nan_code(GetParam(), code)) continue;
    const float value = decoder.decode(static_cast<std::uint8_t>(code));
    EXPECT_EQ(encoder.encode(value), code);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Fp8Decode, testing::ValuesIn(kFormats),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace zerodiff::device
