// The device's number formats against tables that this test evaluates in binary64: every 16-bit
// input, and of binary32 the neighbourhood of every representable value and of every tie.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "device/kernels/number_formats.hip.h"

namespace zerodiff::device {
namespace {

// Non-negative numbers of a format on its unbounded grid: code c has the value values[c], codes
// past `largest` would be larger numbers.
struct Grid {
  std::uint32_t largest = 0;
  std::vector<double> values;  // of codes 0 .. largest + 1
};

Grid make_grid(int mantissa_bits, int bias, std::uint32_t largest) {
  Grid grid{largest, {}};
  for (std::uint32_t code = 0; code <= largest + 1; ++code) {
    const auto exponent = static_cast<int>(code >> mantissa_bits);
    const double mantissa = code & ((1U << mantissa_bits) - 1);
    const double unit = std::ldexp(1.0, -mantissa_bits);
    grid.values.push_back(exponent == 0 ? std::ldexp(mantissa * unit, 1 - bias)
                                        : std::ldexp(1 + mantissa * unit, exponent - bias));
  }
  return grid;
}

// The code of a non-negative number, ties to even; largest + 1 stands for anything past `largest`.
std::uint32_t nearest_code(const Grid& grid, double magnitude) {
  const auto above = std::lower_bound(grid.values.begin(), grid.values.end(), magnitude);
  if (above == grid.values.end()) return grid.largest + 1;
  const auto code = static_cast<std::uint32_t>(above - grid.values.begin());
  if (code == 0) return 0;
  const double up = *above - magnitude;
  const double down = magnitude - grid.values[code - 1];
  if (up == down) return code % 2 == 0 ? code : code - 1;
  return up < down ? code : code - 1;
}

// Every value and every tie of a grid with its binary32 neighbours, of both signs, and what lies
// outside of any grid.
std::vector<float> critical_inputs(const Grid& grid) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> inputs = {0.0F,
                               std::numeric_limits<float>::denorm_min(),
                               std::numeric_limits<float>::min(),
                               1e-30F,
                               1e30F,
                               std::numeric_limits<float>::max(),
                               kInfinity,
                               std::numeric_limits<float>::quiet_NaN()};
  for (std::size_t i = 0; i + 1 < grid.values.size(); ++i) {
    const double tie = (grid.values[i] + grid.values[i + 1]) / 2;
    for (const double centre : {grid.values[i], tie}) {
      const auto value = static_cast<float>(centre);
      inputs.push_back(value);
      inputs.push_back(std::nextafterf(value, 0));
      inputs.push_back(std::nextafterf(value, kInfinity));
    }
  }
  const std::size_t positive = inputs.size();
  for (std::size_t i = 0; i < positive; ++i) inputs.push_back(-inputs[i]);
  return inputs;
}

struct SixteenBitFormat {
  std::string name;
  int mantissa_bits;
  int bias;
  std::uint32_t infinity;
  float (*decode)(std::uint16_t);
  std::uint16_t (*encode)(float);
};

const SixteenBitFormat kSixteenBitFormats[] = {
    {"bfloat16", 7, 127, 0x7F80, &BFloat16::decode, &BFloat16::encode},
    {"float16", 10, 15, 0x7C00, &Float16::decode, &Float16::encode},
};

class SixteenBit : public testing::TestWithParam<SixteenBitFormat> {
 protected:
  Grid grid() const {
    return make_grid(GetParam().mantissa_bits, GetParam().bias, GetParam().infinity - 1);
  }
};

TEST_P(SixteenBit, DecodesEveryCode) {
  const Grid numbers = grid();
  for (std::uint32_t code = 0; code <= 0xFFFF; ++code) {
    const std::uint32_t magnitude = code & 0x7FFF;
    const float decoded = GetParam().decode(static_cast<std::uint16_t>(code));
    if (magnitude > GetParam().infinity) {
      EXPECT_TRUE(std::isnan(decoded)) << code;
      continue;
    }
    EXPECT_EQ(std::signbit(decoded), code > 0x7FFF) << code;
    const double wanted = magnitude == GetParam().infinity ? std::numeric_limits<double>::infinity()
                                                           : numbers.values[magnitude];
    ASSERT_EQ(std::fabs(static_cast<double>(decoded)), wanted) << code;
  }
}

TEST_P(SixteenBit, EncodesItsOwnValues) {
  for (std::uint32_t code = 0; code <= 0xFFFF; ++code) {
    const float value = GetParam().decode(static_cast<std::uint16_t>(code));
    const std::uint16_t encoded = GetParam().encode(value);
    if (std::isnan(value)) {
      ASSERT_GT(encoded & 0x7FFFU, GetParam().infinity) << code;
    } else {
      ASSERT_EQ(encoded, code);
    }
  }
}

TEST_P(SixteenBit, RoundsToNearestEven) {
  const Grid numbers = grid();
  for (const float input : critical_inputs(numbers)) {
    const std::uint16_t encoded = GetParam().encode(input);
    if (std::isnan(input)) {
      EXPECT_GT(encoded & 0x7FFFU, GetParam().infinity);
      continue;
    }
    const std::uint32_t sign = std::signbit(input) ? 0x8000 : 0;
    ASSERT_EQ(encoded, nearest_code(numbers, std::fabs(static_cast<double>(input))) | sign)
        << input;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SixteenBit, testing::ValuesIn(kSixteenBitFormats),
                         [](const auto& each) { return each.param.name; });

struct Fp8Format {
  std::string name;
  std::int32_t format;
  int mantissa_bits;
  int bias;
  std::uint32_t largest;
  bool fnuz;
};

const Fp8Format kFp8Formats[] = {
    {"e4m3fn", kE4m3fn, 3, 7, 0x7E, false},
    {"e4m3fnuz", kE4m3fnuz, 3, 8, 0x7F, true},
    {"e5m2", kE5m2, 2, 15, 0x7B, false},
    {"e5m2fnuz", kE5m2fnuz, 2, 16, 0x7F, true},
};

enum class OverflowRule : std::uint8_t { saturate, nan, inf };

class Fp8 : public testing::TestWithParam<Fp8Format> {
 protected:
  std::uint32_t wanted(const Grid& grid, float input, OverflowRule rule) const {
    const std::uint32_t sign = std::signbit(input) ? 0x80 : 0;
    const std::uint32_t nan = GetParam().fnuz ? 0x80 : 0x7F | sign;
    if (std::isnan(input)) return nan;
    const std::uint32_t code = nearest_code(grid, std::fabs(static_cast<double>(input)));
    if (code == 0) return GetParam().fnuz ? 0 : sign;
    if (code <= GetParam().largest) return code | sign;
    if (rule == OverflowRule::nan) return nan;
    return (rule == OverflowRule::inf ? 0x7CU : GetParam().largest) | sign;
  }

  void check(OverflowRule rule, std::uint32_t switches) const {
    const Grid grid = make_grid(GetParam().mantissa_bits, GetParam().bias, GetParam().largest);
    const Fp8Encoder encoder = make_fp8_encoder(GetParam().format, switches);
    std::vector<float> inputs = critical_inputs(grid);
    for (std::uint32_t code = 0; code <= 0xFFFF; ++code) {
      inputs.push_back(BFloat16::decode(static_cast<std::uint16_t>(code)));
      inputs.push_back(Float16::decode(static_cast<std::uint16_t>(code)));
    }
    for (const float input : inputs) {
      const std::uint32_t code = encoder.encode(input);
      ASSERT_EQ(code, wanted(grid, input, rule)) << input;
    }
  }
};

TEST_P(Fp8, Saturates) {
  check(OverflowRule::saturate, 0);
}
TEST_P(Fp8, OverflowsToNan) {
  check(OverflowRule::nan, kOverflowToNan);
}

TEST(Fp8Infinity, OverflowsToInfinityInE5m2) {
  const Fp8Encoder encoder = make_fp8_encoder(kE5m2, kOverflowToInfinity);
  EXPECT_EQ(encoder.encode(57344.0F), 0x7B);
  EXPECT_EQ(encoder.encode(61439.0F), 0x7B);
  EXPECT_EQ(encoder.encode(61440.0F), 0x7C);
  EXPECT_EQ(encoder.encode(-61440.0F), 0xFC);
  EXPECT_EQ(encoder.encode(std::numeric_limits<float>::infinity()), 0x7C);
  EXPECT_EQ(encoder.encode(std::numeric_limits<float>::quiet_NaN()), 0x7F);
}

TEST_P(Fp8, FollowsTheOverflowRuleOfTheContractOnly) {
  const Fp8Encoder plain = make_fp8_encoder(GetParam().format, 0);
  const Fp8Encoder others = make_fp8_encoder(
      GetParam().format, kDivideByScale | kQuantizeFromFp32 | kBlockContiguous | kRebasedSlots);
  EXPECT_EQ(plain.encode(1e9F), others.encode(1e9F));
}

INSTANTIATE_TEST_SUITE_P(Formats, Fp8, testing::ValuesIn(kFp8Formats),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace zerodiff::device
