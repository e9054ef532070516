// Square root, division, fma, contraction and denormals: one kernel, several sets of inputs.
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "device/selftest/plain_arithmetic.h"
#include "device/selftest/selftest_checks.h"

namespace zerodiff::device {
namespace {

constexpr std::uint32_t kSeed = 20240607;
constexpr std::size_t kRandom = 60000;

struct Operands {
  std::vector<float> a, b, c;

  void add(float x, float y, float z) {
    a.push_back(x);
    b.push_back(y);
    c.push_back(z);
  }
  std::string text(std::size_t i) const {
    return number_text(a[i]) + ", " + number_text(b[i]) + ", " + number_text(c[i]);
  }
};

class RandomBits {
 public:
  explicit RandomBits(std::uint32_t seed) : engine_(seed) {}
  std::uint32_t operator()() { return static_cast<std::uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
};

float from_bits(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

// Ends and middles of the ranges of binary32, with their neighbours, and the specials.
std::vector<float> notable_values() {
  std::vector<float> values{
      0.0F, 3.0F, 0x1.fffffep-1F, 0x1.000002p+0F, 0x1.fffffep+63F, 0x1p-75F, 1.0F / 3, 7.0F};
  for (const std::uint32_t bits :
       {0x00000001U, 0x00000003U, 0x00400000U, 0x007FFFFFU, 0x00800000U, 0x00800001U, 0x3F800000U,
        0x7F7FFFFFU, 0x7F800000U, 0x7FC00000U, 0x1F800000U, 0x5F000001U}) {
    values.push_back(from_bits(bits));
  }
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  return values;
}

// All triples of notable values, then random ones: any bits, and numbers near each other.
Operands any_operands(const SelftestOptions& options) {
  Operands operands;
  const std::vector<float> values = notable_values();
  for (const float a : values) {
    for (const float b : values) {
      for (const float c : values) operands.add(a, b, c);
    }
  }
  RandomBits random(kSeed);
  const auto near_one = [&] { return from_bits(0x3F000000U + random() % 0x01800000U); };
  for (std::size_t i = 0; i < kRandom; ++i) {
    const std::uint32_t a = random();
    const std::uint32_t b = random();
    operands.add(from_bits(a), from_bits(b), from_bits(random()));
  }
  for (std::size_t i = 0; i < kRandom; ++i) {
    const float a = near_one();
    const float b = near_one();
    operands.add(a, b, i % 2 == 0 ? -(a * b) : near_one());
  }
  return {thinned(operands.a, options.stride), thinned(operands.b, options.stride),
          thinned(operands.c, options.stride)};
}

// Subnormal operands, and normal ones with subnormal results.
Operands small_operands(const SelftestOptions& options) {
  Operands operands;
  RandomBits random(kSeed + 1);
  for (std::size_t i = 0; i < kRandom; ++i) {
    const float small = from_bits((random() % 0x00800000U) | (random() & 0x80000000U));
    const float scale = from_bits(0x3E000000U + random() % 0x03000000U);
    const float tiny = from_bits(0x00800000U + random() % 0x08000000U);
    switch (i % 3) {
      case 0:
        operands.add(std::fabs(small), scale, small);
        break;
      case 1:
        operands.add(tiny, 1 / tiny * 0x1p-20F, small);
        break;
      default:
        operands.add(tiny, 0x1p+20F * scale, -small);
    }
  }
  return {thinned(operands.a, options.stride), thinned(operands.b, options.stride),
          thinned(operands.c, options.stride)};
}

struct Results {
  RunReport report;
  std::vector<float> root, quotient, fused, separate;
};

Results run_arithmetic(Backend& backend, const Operands& operands) {
  LaunchList list;
  const auto n = static_cast<std::int64_t>(operands.a.size());
  const BufferId a = add_values(list, "a", ElementType::float32, operands.a);
  const BufferId b = add_values(list, "b", ElementType::float32, operands.b);
  const BufferId c = add_values(list, "c", ElementType::float32, operands.c);
  const BufferId root = list.add_output("root", ElementType::float32, n);
  const BufferId quotient = list.add_output("quotient", ElementType::float32, n);
  const BufferId fused = list.add_output("fused", ElementType::float32, n);
  const BufferId separate = list.add_output("separate", ElementType::float32, n);
  list.add_launch(
      selftest_launch("selftest_arithmetic", n,
                      {BufferArgument{a}, BufferArgument{b}, BufferArgument{c},
                       BufferArgument{root}, BufferArgument{quotient}, BufferArgument{fused},
                       BufferArgument{separate}, static_cast<std::int32_t>(n)}));
  const auto resident = backend.allocate(list);
  resident->upload();
  return {resident->run(), downloaded<float>(*resident, list, root),
          downloaded<float>(*resident, list, quotient), downloaded<float>(*resident, list, fused),
          downloaded<float>(*resident, list, separate)};
}

template <class Wanted>
void compare_all(SelftestTally& tally, const Operands& operands, const std::vector<float>& found,
                 const Wanted& wanted) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    tally.compare(found[i], wanted(i), [&] { return operands.text(i); });
  }
}

// One of the results over any operands.
template <class Wanted>
SelftestResult check_one(Backend& backend, const SelftestOptions& options, const char* name,
                         const char* what, std::vector<float> Results::*result,
                         const Wanted& wanted) {
  SelftestTally tally(name, what);
  const Operands operands = any_operands(options);
  const Results results = run_arithmetic(backend, operands);
  if (tally.ran(results.report)) {
    compare_all(tally, operands, results.*result,
                [&](std::size_t i) { return wanted(operands.a[i], operands.b[i], operands.c[i]); });
  }
  return std::move(tally).result();
}

}  // namespace

SelftestResult check_square_root(Backend& backend, const SelftestOptions& options) {
  return check_one(backend, options, "square root", "correctly rounded", &Results::root,
                   [](float a, float, float) { return plain_root(a); });
}

SelftestResult check_division(Backend& backend, const SelftestOptions& options) {
  return check_one(backend, options, "division", "correctly rounded", &Results::quotient,
                   [](float a, float b, float) { return plain_quotient(a, b); });
}

SelftestResult check_fma(Backend& backend, const SelftestOptions& options) {
  return check_one(backend, options, "fma", "one rounding", &Results::fused,
                   [](float a, float b, float c) { return plain_fma(a, b, c); });
}

SelftestResult check_contraction(Backend& backend, const SelftestOptions& options) {
  return check_one(backend, options, "contraction", "a*b + c keeps its two roundings",
                   &Results::separate,
                   [](float a, float b, float c) { return plain_separate(a, b, c); });
}

SelftestResult check_denormals(Backend& backend, const SelftestOptions& options) {
  SelftestTally tally("denormals", "kept, as operands and as results");
  const Operands operands = small_operands(options);
  // Names of their own: clang 14 cannot capture structured bindings.
  const std::vector<float>& a = operands.a;
  const std::vector<float>& b = operands.b;
  const std::vector<float>& c = operands.c;
  const Results results = run_arithmetic(backend, operands);
  if (tally.ran(results.report)) {
    compare_all(tally, operands, results.root, [&](std::size_t i) { return plain_root(a[i]); });
    compare_all(tally, operands, results.quotient,
                [&](std::size_t i) { return plain_quotient(a[i], b[i]); });
    compare_all(tally, operands, results.fused,
                [&](std::size_t i) { return plain_fma(a[i], b[i], c[i]); });
    compare_all(tally, operands, results.separate,
                [&](std::size_t i) { return plain_separate(a[i], b[i], c[i]); });
  }
  return std::move(tally).result();
}

}  // namespace zerodiff::device
