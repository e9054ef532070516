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

// The code at one of four places, with others around it.
float decode_at(const Fp8Decoder& decoder, std::uint32_t code, int place, std::uint32_t others) {
  const std::uint32_t mask = 0xFFU << (8 * place);
  float values[4];
  decoder.decode4((others * 0x01010101U & ~mask) | code << (8 * place), values);
  return values[place];
}

// The others are zeros, NaN of one kind or the other, infinity, or large.
const std::uint32_t kOthers[] = {0x00, 0x80, 0x7F, 0xFF, 0x7C, 0x7E};

TEST_P(Fp8Decode, KnowsEveryCodeAtEveryPlace) {
  const Fp8Decoder decoder = make_fp8_decoder(GetParam().code);
  for (std::uint32_t i = 0; i < 4 * 6 * 256; ++i) {
    const std::uint32_t code = i % 256;
    const float value = decode_at(decoder, code, static_cast<int>(i / 256 % 4), kOthers[i / 1024]);
    if (is_nan_code(GetParam(), code)) {
      ASSERT_TRUE(std::isnan(value)) << code;
      continue;
    }
    ASSERT_EQ(value, wanted_value(GetParam(), code)) << code;
    ASSERT_EQ(std::signbit(value), code >= 0x80) << code;
  }
}

TEST_P(Fp8Decode, InvertsTheEncoder) {
  const Fp8Decoder decoder = make_fp8_decoder(GetParam().code);
  const Fp8Encoder encoder = make_fp8_encoder(GetParam().code, kOverflowToInfinity);
  for (std::uint32_t code = 0; code <= 0xFF; ++code) {
    if (is_nan_code(GetParam(), code)) continue;
    EXPECT_EQ(encoder.encode(decode_at(decoder, code, 0, 0)), code);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Fp8Decode, testing::ValuesIn(kFormats),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace zerodiff::device
