// Conversions must not depend on the rounding mode or on flush-to-zero modes of the thread.
#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <ostream>
#include <string>
#include <vector>

#include "reference/number_formats.h"
#include "tests/reference/rounding_intervals.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace zerodiff::reference {
namespace {

constexpr unsigned kFlushToZero = 0x8040;  // FTZ and DAZ of MXCSR

struct Environment {
  const char* name;
  int rounding;
  bool flush_to_zero;
};
void PrintTo(const Environment& row, std::ostream* out) {
  *out << row.name;
}
constexpr Environment kEnvironments[] = {{"upward", FE_UPWARD, false},
                                         {"downward", FE_DOWNWARD, false},
                                         {"toward_zero", FE_TOWARDZERO, false},
                                         {"flush_to_zero", FE_TONEAREST, true}};

class InEnvironment {
 public:
  explicit InEnvironment(const Environment& environment) {
    std::fegetenv(&saved_);
    std::fesetround(environment.rounding);
#if defined(__SSE2__)
    if (environment.flush_to_zero) _mm_setcsr(_mm_getcsr() | kFlushToZero);
#endif
  }
  ~InEnvironment() {
    std::fesetenv(&saved_);
  }
  InEnvironment(const InEnvironment&) = delete;
  InEnvironment& operator=(const InEnvironment&) = delete;

 private:
  std::fenv_t saved_{};
};

std::vector<float> boundary_values(ElementType format) {
  std::vector<float> values;
  for (const auto& interval : test::rounding_intervals(format)) {
    values.push_back(std::bit_cast<float>(interval.first));
    values.push_back(-std::bit_cast<float>(interval.last));
  }
  return values;
}

// The bits of every conversion: both ways, all formats.
std::vector<std::uint32_t> convert_everything(const std::vector<std::vector<float>>& inputs) {
  const ElementType fp8[] = {ElementType::float8_e4m3fn, ElementType::float8_e4m3fnuz,
                             ElementType::float8_e5m2, ElementType::float8_e5m2fnuz};
  std::vector<std::uint32_t> results;
  for (const std::vector<float>& values : inputs) {
    for (const float value : values) {
      results.push_back(to_bfloat16(value));
      results.push_back(to_float16(value));
      for (const ElementType format : fp8) {
        results.push_back(encode_fp8(format, value, Overflow::saturate));
      }
    }
  }
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto code = static_cast<std::uint16_t>(bits);
    results.push_back(std::bit_cast<std::uint32_t>(from_bfloat16(code)));
    results.push_back(std::bit_cast<std::uint32_t>(from_float16(code)));
  }
  for (const ElementType format : fp8) {
    for (std::uint32_t code = 0; code < 256; ++code) {
      const float value = decode_fp8(format, static_cast<std::uint8_t>(code));
      results.push_back(std::bit_cast<std::uint32_t>(value));
    }
  }
  return results;
}

class FloatingPointEnvironment : public testing::TestWithParam<Environment> {};

TEST_P(FloatingPointEnvironment, ChangesNoConversion) {
#if !defined(__SSE2__)
  if (GetParam().flush_to_zero) FAIL() << "no way to set flush-to-zero on this processor";
#endif
  std::vector<std::vector<float>> inputs;
  for (const ElementType format :
       {ElementType::bfloat16, ElementType::float16, ElementType::float8_e4m3fn,
        ElementType::float8_e4m3fnuz, ElementType::float8_e5m2, ElementType::float8_e5m2fnuz}) {
    inputs.push_back(boundary_values(format));
  }
  const std::vector<std::uint32_t> usual = convert_everything(inputs);
  std::vector<std::uint32_t> changed;
  {
    const InEnvironment inside(GetParam());
    changed = convert_everything(inputs);
  }
  ASSERT_EQ(usual.size(), changed.size());
  for (std::size_t i = 0; i < usual.size(); ++i) {
    ASSERT_EQ(usual[i], changed[i]) << "conversion " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(NumberFormats, FloatingPointEnvironment, testing::ValuesIn(kEnvironments),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace zerodiff::reference
