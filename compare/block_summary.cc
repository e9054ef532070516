#include "compare/block_summary.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>
#include <type_traits>

// Vectors wider than the target's registers are split by the compiler; no such vector crosses a
// function boundary that is not inlined.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace zerodiff::compare {
namespace {

constexpr std::int64_t kVectorBytes = 32;
constexpr std::int64_t kLineBytes = 2 * kVectorBytes;

template <class T, std::size_t kBytes = kVectorBytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(kBytes)));  // NOLINT(modernize-use-using)
};
template <class T, std::size_t kBytes = kVectorBytes>
using Vector = typename VectorOf<T, kBytes>::type;

using Floats = Vector<float>;
using Words = Vector<std::uint32_t>;
using SignedWords = Vector<std::int32_t>;
using Doubles = Vector<double>;
using FourFloats = Vector<float, 16>;

template <class T>
T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// A floating-point type for the vector loop: mantissa bits, exponent bias, and the largest
// magnitude that is not NaN.
template <class BitsOfElement, int kMantissaBits, int kBias, int kLargest, bool kFnuz>
struct VectorFormat {
  using Bits = BitsOfElement;
  using Signed = std::make_signed_t<Bits>;
  using SignedVector = Vector<Signed>;
  static constexpr Signed kMagnitude = std::numeric_limits<Signed>::max();

  static SignedVector is_nan(SignedVector bits) {
    if constexpr (kFnuz) {
      return bits == std::numeric_limits<Signed>::min();
    } else {
      return (bits & kMagnitude) > static_cast<Signed>(kLargest);
    }
  }

  // ElementOrder::place.
  static SignedVector place(SignedVector bits) {
    const SignedVector negative = bits < 0;
    const SignedVector flipped = (bits & kMagnitude) ^ negative;
    if constexpr (kFnuz) return flipped - negative;
    return flipped;
  }

  // The values of eight elements, for abs errors: an fnuz NaN comes out as 0.
  static Floats values(const std::byte* from) {
    const Words bits = __builtin_convertvector(load<Vector<Bits, 8 * sizeof(Bits)>>(from), Words);
    constexpr int kShift = 32 - 8 * static_cast<int>(sizeof(Bits));
    if constexpr (kBias == 127) {
      return reinterpret_cast<Floats>(bits << kShift);
    } else {
      return reinterpret_cast<Floats>(
          magnitude_bits(bits & static_cast<std::uint32_t>(kMagnitude)) |
          (bits << kShift & 0x80000000U));
    }
  }

 private:
  // binary32 bits of the values of eight magnitudes.
  static Words magnitude_bits(Words magnitude) {
    constexpr float kSubnormalUnit =
        std::bit_cast<float>(static_cast<std::uint32_t>(128 - kBias - kMantissaBits) << 23);
    constexpr std::uint32_t kInfinity = 0x7F800000;
    constexpr bool kHasInfinity = !kFnuz && (kLargest & ((1 << kMantissaBits) - 1)) == 0;
    const auto order = reinterpret_cast<SignedWords>(magnitude);
    const Words normal =
        (magnitude << (23 - kMantissaBits)) + (static_cast<std::uint32_t>(127 - kBias) << 23);
    const auto subnormal =
        reinterpret_cast<Words>(__builtin_convertvector(order, Floats) * kSubnormalUnit);
    Words result = order < (1 << kMantissaBits) ? subnormal : normal;
    if constexpr (kHasInfinity) result = order == kLargest ? Words{} + kInfinity : result;
    if constexpr (!kFnuz) result = order > kLargest ? Words{} + (kInfinity + 1) : result;
    return result;
  }
};

using Bfloat16 = VectorFormat<std::uint16_t, 7, 127, 0x7F80, false>;
using Float16 = VectorFormat<std::uint16_t, 10, 15, 0x7C00, false>;
using Float32 = VectorFormat<std::uint32_t, 23, 127, 0x7F800000, false>;
using E4m3fn = VectorFormat<std::uint8_t, 3, 7, 0x7E, false>;
using E4m3fnuz = VectorFormat<std::uint8_t, 3, 8, 0x7F, true>;
using E5m2 = VectorFormat<std::uint8_t, 2, 15, 0x7C, false>;
using E5m2fnuz = VectorFormat<std::uint8_t, 2, 16, 0x7F, true>;

bool lines_equal(const std::byte* a, const std::byte* b) {
  using Longs = Vector<std::uint64_t>;
  const Longs difference = (load<Longs>(a) ^ load<Longs>(b)) |
                           (load<Longs>(a + kVectorBytes) ^ load<Longs>(b + kVectorBytes));
  return (difference[0] | difference[1] | difference[2] | difference[3]) == 0;
}

// Running totals, one a lane. A lane counts at most kSummaryBytes / kVectorBytes = 128 elements.
template <class Format>
class VectorSummary {
 public:
  using Bits = typename Format::Bits;

  explicit VectorSummary(bool equal_nans) {
    const auto all = static_cast<Bits>(equal_nans ? 0 : ~0U);
    nans_count_ = nans_count_ + all;
  }

  void add_line(const std::byte* a, const std::byte* b) {
    constexpr auto kGroup = static_cast<std::int64_t>(8 * sizeof(Bits));
    for (std::int64_t at = 0; at < kLineBytes; at += kVectorBytes) count(a + at, b + at);
    for (std::int64_t at = 0; at < kLineBytes; at += kGroup) {
      if (std::memcmp(a + at, b + at, kGroup) != 0) measure(a + at, b + at);
    }
  }

  BlockSummary summary() const {
    BlockSummary result;
    for (std::size_t lane = 0; lane < kVectorBytes / sizeof(Bits); ++lane) {
      result.mismatches += static_cast<std::int64_t>(mismatches_[lane]);
      result.nan_mismatches += static_cast<std::int64_t>(nan_mismatches_[lane]);
      result.max_ulp = std::max<std::uint64_t>(result.max_ulp, max_ulp_[lane]);
    }
    for (std::size_t lane = 0; lane < 4; ++lane) {
      result.max_abs_error = std::max(result.max_abs_error, max_abs_error_[lane]);
    }
    if (result.nan_mismatches > 0) {
      result.max_abs_error = std::numeric_limits<double>::infinity();
      result.max_ulp = UINT64_MAX;
    }
    return result;
  }

 private:
  using Unsigned = Vector<Bits>;

  void count(const std::byte* a, const std::byte* b) {
    const auto x = load<typename Format::SignedVector>(a);
    const auto y = load<typename Format::SignedVector>(b);
    const auto x_nan = reinterpret_cast<Unsigned>(Format::is_nan(x));
    const auto y_nan = reinterpret_cast<Unsigned>(Format::is_nan(y));
    const Unsigned one_nan = x_nan ^ y_nan;
    const Unsigned counted = reinterpret_cast<Unsigned>(x != y) & (~(x_nan & y_nan) | nans_count_);
    mismatches_ -= counted;
    nan_mismatches_ -= one_nan;
    const auto x_place = Format::place(x);
    const auto y_place = Format::place(y);
    const auto high = x_place > y_place ? x_place : y_place;
    const auto low = x_place > y_place ? y_place : x_place;
    const Unsigned ulp =
        (reinterpret_cast<Unsigned>(high) - reinterpret_cast<Unsigned>(low)) & counted & ~one_nan;
    max_ulp_ = ulp > max_ulp_ ? ulp : max_ulp_;
  }

  void measure(const std::byte* a, const std::byte* b) {
    const Floats x = Format::values(a);
    const Floats y = Format::values(b);
    for (std::size_t half = 0; half < 2; ++half) {
      const auto* const x_half = reinterpret_cast<const std::byte*>(&x) + half * sizeof(FourFloats);
      const auto* const y_half = reinterpret_cast<const std::byte*>(&y) + half * sizeof(FourFloats);
      const Doubles difference = __builtin_convertvector(load<FourFloats>(x_half), Doubles) -
                                 __builtin_convertvector(load<FourFloats>(y_half), Doubles);
      const Doubles error = difference < 0 ? -difference : difference;
      max_abs_error_ = error > max_abs_error_ ? error : max_abs_error_;  // false for NaN
    }
  }

  Unsigned nans_count_{};  // all ones: a pair of NaNs of other bits is a mismatch
  Unsigned mismatches_{};
  Unsigned nan_mismatches_{};
  Unsigned max_ulp_{};
  Doubles max_abs_error_{};
};

template <class Format>
BlockSummary summarise_lines(const std::byte* a, const std::byte* b, std::int64_t bytes,
                             bool equal_nans) {
  VectorSummary<Format> totals(equal_nans);
  for (std::int64_t at = 0; at < bytes; at += kLineBytes) {
    if (!lines_equal(a + at, b + at)) totals.add_line(a + at, b + at);
  }
  return totals.summary();
}

std::uint64_t element_bits(const std::byte* from, std::size_t size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, from, size);
  return bits;
}

void summarise_elements(ElementType type, const std::byte* a, const std::byte* b,
                        std::int64_t bytes, bool equal_nans, BlockSummary& summary) {
  const ElementOrder order = element_order(type);
  const std::size_t size = element_size(type);
  for (std::int64_t at = 0; at < bytes; at += static_cast<std::int64_t>(size)) {
    const std::uint64_t x = element_bits(a + at, size);
    const std::uint64_t y = element_bits(b + at, size);
    if (x == y || (equal_nans && order.is_nan(x) && order.is_nan(y))) continue;
    const ElementDistance apart = distance(type, order, x, y);
    ++summary.mismatches;
    summary.nan_mismatches += apart.one_nan ? 1 : 0;
    summary.max_abs_error = std::max(summary.max_abs_error, apart.abs_error);
    summary.max_ulp = std::max(summary.max_ulp, apart.ulp);
  }
}

BlockSummary summarise_lines(ElementType type, const std::byte* a, const std::byte* b,
                             std::int64_t bytes, bool equal_nans) {
  switch (type) {
    case ElementType::bfloat16:
      return summarise_lines<Bfloat16>(a, b, bytes, equal_nans);
    case ElementType::float16:
      return summarise_lines<Float16>(a, b, bytes, equal_nans);
    case ElementType::float32:
      return summarise_lines<Float32>(a, b, bytes, equal_nans);
    case ElementType::float8_e4m3fn:
      return summarise_lines<E4m3fn>(a, b, bytes, equal_nans);
    case ElementType::float8_e4m3fnuz:
      return summarise_lines<E4m3fnuz>(a, b, bytes, equal_nans);
    case ElementType::float8_e5m2:
      return summarise_lines<E5m2>(a, b, bytes, equal_nans);
    case ElementType::float8_e5m2fnuz:
      return summarise_lines<E5m2fnuz>(a, b, bytes, equal_nans);
    case ElementType::int32:
    case ElementType::int64:
      break;
  }
  BlockSummary summary;
  summarise_elements(type, a, b, bytes, equal_nans, summary);
  return summary;
}

}  // namespace

BlockSummary summarise_block(ElementType type, const std::byte* expected, const std::byte* got,
                             std::int64_t bytes, bool equal_nans) {
  assert(bytes >= 0 && bytes <= kSummaryBytes);
  const std::int64_t whole = bytes / kLineBytes * kLineBytes;
  BlockSummary summary = summarise_lines(type, expected, got, whole, equal_nans);
  summarise_elements(type, expected + whole, got + whole, bytes - whole, equal_nans, summary);
  return summary;
}

}  // namespace zerodiff::compare
