// The search for one head's norm factor against trying every factor on all 128 values.
#include "compare/head_arithmetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compare/written_elements.h"
#include "fixtures/generator.h"
#include "reference/layer.h"
#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

constexpr int kCalls = 60;
constexpr FactorFreedom kAnyOrder{2, true};

// A head's bits under r, all of them, without the search's shortcuts.
class WholeHead {
 public:
  WholeHead(const LayerCall& call, const InsertionHeads& heads, const reference::Choices& choices)
      : call_(call), heads_(heads), choices_(choices), storage_(call, heads, choices) {}

  NormFactor factor(std::int64_t i) {
    std::array<float, kHeadDim> x{};
    reference::from_model_dtype(call_.model_dtype(), heads_.input(i), x);
    NormFactor factor = contract_factor(x, call_.config.rms_norm_eps);
    widen(factor, x, call_.config.rms_norm_eps, kAnyOrder);
    return factor;
  }

  HeadBits bits(std::int64_t i, float r) {
    std::array<float, kHeadDim> z{};
    reference::from_model_dtype(call_.model_dtype(), heads_.input(i), z);
    reference::apply_norm(z, r, reference::one_plus(heads_.weight()));
    if (choices_.norm_materialised) {
      reference::round_to_model_dtype(call_.model_dtype(), std::span<float>(z));
    }
    const auto position =
        call_.positions.as<std::int64_t>()[static_cast<std::size_t>(heads_.token(i))];
    reference::apply_rope(z, reference::RopeTable(call_).row(position), choices_.rope_contraction);
    HeadBits bits{};
    storage_.store(z, heads_.scale(i), bits);
    return bits;
  }

 private:
  const LayerCall& call_;
  const InsertionHeads& heads_;
  reference::Choices choices_;
  HeadStorage storage_;
};

bool same_values(ElementType type, const HeadBits& a, const HeadBits& b) {
  const ElementOrder order = element_order(type);
  for (std::size_t d = 0; d < a.size(); ++d) {
    if (a[d] != b[d] && !(order.is_nan(a[d]) && order.is_nan(b[d]))) return false;
  }
  return true;
}

// The smallest move that gives `got`, by trying them all.
std::optional<std::int32_t> tried(WholeHead& whole, const InsertionHeads& heads, std::int64_t i,
                                  const HeadBits& got) {
  const NormFactor factor = whole.factor(i);
  for (std::int32_t move = 0; move <= std::max(factor.below, factor.above); ++move) {
    if (move <= factor.above && same_values(heads.type(), whole.bits(i, factor.moved(move)), got)) {
      return move;
    }
    if (move <= factor.below &&
        same_values(heads.type(), whole.bits(i, factor.moved(-move)), got)) {
      return -move;
    }
  }
  return std::nullopt;
}

reference::Choices random_choices(std::mt19937_64& random) {
  using reference::RopeContraction;
  constexpr std::array kContractions{RopeContraction::fma_cos, RopeContraction::separate,
                                     RopeContraction::fma_sin};
  reference::Choices choices;
  choices.rope_contraction = kContractions[random() % 3];
  choices.norm_materialised = random() % 4 == 0;
  choices.quantize_from = random() % 2 == 0 ? QuantizeFrom::fp32 : QuantizeFrom::model_dtype;
  choices.overflow = random() % 2 == 0 ? Overflow::nan : Overflow::saturate;
  return choices;
}

struct Counts {
  int explained = 0;
  int moved = 0;
  int unexplained = 0;
};

// Heads with a legal r, and the same with one element a step off, against all moves.
void check_heads(const LayerCall& call, HeadTensor tensor, std::mt19937_64& random,
                 Counts& counts) {
  const WrittenSlots written = written_slots(call);
  const InsertionHeads heads(call, written, tensor);
  const reference::Choices choices = random_choices(random);
  HeadArithmetic arithmetic(call, heads, choices, kAnyOrder);
  WholeHead whole(call, heads, choices);
  for (std::int64_t n = 0; n < std::min<std::int64_t>(heads.count(), 4); ++n) {
    const auto i = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(heads.count()));
    const NormFactor factor = whole.factor(i);
    const std::int64_t moves = std::int64_t{1} + factor.below + factor.above;
    const auto range = static_cast<std::uint64_t>(moves);
    const std::int32_t move = static_cast<std::int32_t>(random() % range) - factor.below;
    HeadBits got = whole.bits(i, factor.moved(move));
    const auto found = arithmetic.explain(i, got);
    ASSERT_TRUE(found) << "a move of " << move << " is not found";
    ASSERT_EQ(found, tried(whole, heads, i, got));
    counts.explained += 1;
    counts.moved += *found == 0 ? 0 : 1;
    got[random() % got.size()] ^= 1;
    const auto damaged = arithmetic.explain(i, got);
    ASSERT_EQ(damaged, tried(whole, heads, i, got));
    counts.unexplained += damaged ? 0 : 1;
  }
}

TEST(HeadArithmeticTest, FindsWhatTryingEveryFactorFinds) {
  Counts counts;
  for (std::uint64_t seed = 70'000; seed < 70'000 + kCalls; ++seed) {
    const GeneratorOptions options = random_options(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + describe(options));
    const LayerCall call = generate_call(options);
    std::mt19937_64 random(seed);
    for (const HeadTensor tensor : insertion_tensors(call)) {
      if (tensor != HeadTensor::v) check_heads(call, tensor, random, counts);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  EXPECT_GT(counts.moved, kCalls / 2);
  EXPECT_GT(counts.unexplained, counts.explained / 2);
}

// gamma = 127 * 2^-24 of u moves r by half of it: 31.75 to 63.5 ulp, and 2 for the unit.
TEST(NormFactorTest, FreedomIsTheIntervalOfAnyOrderAndTheUnit) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  for (int n = 0; n < 1000; ++n) {
    std::array<float, kHeadDim> x{};
    for (float& value : x) value = normal(random);
    const NormFactor contract = contract_factor(x, 1e-6F);
    EXPECT_EQ(contract.below, 0);
    EXPECT_EQ(contract.above, 0);
    NormFactor factor = contract;
    widen(factor, x, 1e-6F, kAnyOrder);
    for (const std::int32_t steps : {factor.below, factor.above}) {
      EXPECT_GE(steps, 31);
      EXPECT_LE(steps, 68);
    }
    factor = contract;
    widen(factor, x, 1e-6F, {2, false});
    for (const std::int32_t steps : {factor.below, factor.above}) {
      EXPECT_GE(steps, 2);
      EXPECT_LE(steps, 4);  // the contract's own r may be a step off the correctly rounded one
    }
    factor = contract;
    widen(factor, x, 1e-6F, {0, false});
    EXPECT_EQ(factor.below + factor.above, 0);
  }
}

TEST(NormFactorTest, ZeroInfinityAndNanAreNotMoved) {
  std::array<float, kHeadDim> x{};
  x[3] = std::numeric_limits<float>::infinity();
  NormFactor factor = contract_factor(x, 1e-6F);
  widen(factor, x, 1e-6F, kAnyOrder);
  EXPECT_EQ(factor.r, 0.0F);
  EXPECT_EQ(factor.below + factor.above, 0);
  x[3] = std::numeric_limits<float>::quiet_NaN();
  factor = contract_factor(x, 1e-6F);
  widen(factor, x, 1e-6F, kAnyOrder);
  EXPECT_TRUE(std::isnan(factor.r));
  EXPECT_EQ(factor.below + factor.above, 0);
}

}  // namespace
}  // namespace zerodiff::compare
