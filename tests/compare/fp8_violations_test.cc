// One planted violation of every clause of the fp8 contract.
#include "compare/fp8_contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <ostream>
#include <string>

#include "reference/number_formats.h"
#include "reference/qk_norm_rope.h"
#include "tests/compare/fp8_stored.h"

namespace zerodiff::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr ElementType kE4m3 = ElementType::float8_e4m3fn;

class Planted : public testing::Test {
 protected:
  // Changes one written K code; returns what it was.
  std::uint8_t set_k_code(std::int64_t dim, std::uint8_t code) {
    const std::int64_t at = stored_.element(CacheOutput::k_cache, 1, 1, dim);
    const auto before = static_cast<std::uint8_t>(get_bits(stored_.path.k_cache, at));
    set_bits(stored_.path.k_cache, at, code);
    return before;
  }
  std::uint8_t k_code(std::int64_t dim) {
    return static_cast<std::uint8_t>(
        get_bits(stored_.path.k_cache, stored_.element(CacheOutput::k_cache, 1, 1, dim)));
  }
  // A dim of K whose code is an ordinary one, far from zero and from the largest.
  std::int64_t ordinary_dim() {
    for (std::int64_t dim = 0; dim < kHeadDim; ++dim) {
      const int magnitude = k_code(dim) & 0x7F;
      if (magnitude > 0x20 && magnitude < 0x60) return dim;
    }
    ADD_FAILURE() << "no ordinary code";
    return 0;
  }
  Stored stored_{small_fp8_options(kE4m3)};
};

TEST_F(Planted, ACodeNextToTheContractsBreaksCode) {
  const std::int64_t dim = ordinary_dim();
  const std::uint8_t right = k_code(dim);
  set_k_code(dim, static_cast<std::uint8_t>(right + 1));
  const Fp8TensorReport k = tensor(stored_.report(), "k");
  EXPECT_FALSE(k.conforms);
  EXPECT_EQ(clause(k, "code").violations, 1);
  EXPECT_EQ(clause(k, "nan").violations, 0);
  EXPECT_EQ(clause(k, "error_bound").violations, 1);
  const std::string where = "first at token " + std::to_string(stored_.token(1)) +
                            ", head 1, dim " + std::to_string(dim) + ":";
  EXPECT_THAT(clause(k, "code").detail, HasSubstr("1 of 1 by one code"));
  EXPECT_THAT(clause(k, "code").detail, HasSubstr(where));
  EXPECT_THAT(clause(k, "error_bound").detail, HasSubstr(where));
  EXPECT_GT(k.largest_error_steps, 0.5);
  EXPECT_TRUE(tensor(stored_.report(), "v").conforms);
}

TEST_F(Planted, ANanCodeBreaksNan) {
  set_k_code(ordinary_dim(), 0xFF);
  const Fp8TensorReport k = tensor(stored_.report(), "k");
  EXPECT_THAT(broken(k), ElementsAre("code", "nan", "error_bound"));
  EXPECT_EQ(clause(k, "nan").violations, 1);
  EXPECT_EQ(k.nan_codes, 1);
}

TEST_F(Planted, ElementsThatNoSlotMapsToAreNotJudged) {
  const WrittenSlots written = written_slots(stored_.call);
  const CacheRegions regions(stored_.call, written, CacheOutput::k_cache);
  for (std::int64_t flat = 0; flat < stored_.path.k_cache.size(); ++flat) {
    if (!regions.is_written(regions.geometry().at(flat))) {
      set_bits(stored_.path.k_cache, flat, 0x7F);
    }
  }
  const std::int64_t padding = 9 * 2 * kHeadDim;
  for (std::int64_t i = padding; i < stored_.path.index_q.size(); ++i) {
    set_bits(stored_.path.index_q, i, 0x7F);
  }
  for (const Fp8TensorReport& one : stored_.report().tensors) EXPECT_TRUE(one.conforms);
}

TEST_F(Planted, AnotherRoundingSourceBreaksCodeButNotTheNanAndUnitScaleClauses) {
  reference::Choices choices;
  choices.quantize_from = QuantizeFrom::fp32;
  stored_.path = reference::run_insertion(stored_.call, choices, 1);
  const Fp8ContractReport report = stored_.report();
  const Fp8TensorReport& k = tensor(report, "k");
  EXPECT_GT(clause(k, "code").violations, 0);
  EXPECT_LT(clause(k, "code").violations, k.written / 10);
  EXPECT_EQ(clause(k, "nan").violations, 0);
  const std::string all_by_one = std::to_string(clause(k, "code").violations) + " of " +
                                 std::to_string(clause(k, "code").violations) + " by one code";
  EXPECT_THAT(clause(k, "code").detail, HasSubstr(all_by_one));
  EXPECT_TRUE(tensor(report, "v").conforms);
  const Fp8TensorReport& index_k = tensor(report, "index_k");
  EXPECT_GT(clause(index_k, "code").violations, 0);
  EXPECT_EQ(clause(index_k, "index_unit_scale").violations, 0);
}

TEST_F(Planted, AScaledIndexCacheBreaksTheUnitScaleClauseAndNamesTheScale) {
  const float scale = stored_.call.k_scale.as<float>()[0];
  reference::QkNormRope stage(stored_.call);
  reference::RotatedRow row;
  const WrittenSlots written = written_slots(stored_.call);
  for (const std::int64_t token : stored_rows(stored_.call)) {
    stage.rotate_row(token, row);
    const std::int64_t slot = written.index_slot_of_row[static_cast<std::size_t>(token)];
    for (std::int64_t dim = 0; dim < kHeadDim; ++dim) {
      const float rounded = reference::round_to_model_dtype(
          ElementType::bfloat16, row.index_k[static_cast<std::size_t>(dim)]);
      set_bits(stored_.path.index_cache, slot * kHeadDim + dim,
               reference::encode_fp8(kE4m3, rounded * (1.0F / scale), Overflow::saturate));
    }
  }
  const Fp8TensorReport index_k = tensor(stored_.report(), "index_k");
  const Fp8Clause& unit = clause(index_k, "index_unit_scale");
  EXPECT_GT(unit.violations, index_k.written / 2);
  EXPECT_THAT(unit.detail,
              HasSubstr(std::to_string(unit.violations) + " of " + std::to_string(unit.violations) +
                        " are the codes that k_scale 0.07"));
}

class BadScale : public testing::TestWithParam<float> {};

TEST_P(BadScale, BreaksTheScaleClause) {
  for (const ScaleGranularity granularity :
       {ScaleGranularity::tensor, ScaleGranularity::head_slot}) {
    GeneratorOptions options = small_fp8_options(kE4m3);
    options.config.scale_granularity = granularity;
    Stored stored(options);
    const auto slot = static_cast<std::size_t>(
        written_slots(stored.call).kv_slot_of_row[static_cast<std::size_t>(stored.token(0))]);
    const bool one = granularity == ScaleGranularity::tensor;
    stored.call.v_scale.as<float>()[one ? 0 : slot] = GetParam();
    stored.run_again();
    const Fp8ContractReport report = stored.report();
    const Fp8Clause& scale = clause(tensor(report, "v"), "scale");
    EXPECT_EQ(scale.violations, 1);
    EXPECT_NE(scale.detail, "");
    EXPECT_FALSE(tensor(report, "v").conforms);
    EXPECT_EQ(clause(tensor(report, "k"), "scale").violations, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Values, BadScale,
                         testing::Values(0.0F, -0.5F, std::numeric_limits<float>::infinity(),
                                         std::numeric_limits<float>::quiet_NaN()),
                         [](const auto& value) { return "case" + std::to_string(value.index); });

struct OverflowCase {
  const char* name;
  Overflow rule;
  std::uint64_t input;  // bfloat16 bits of one v element
  std::uint8_t code;    // what the contract stores in e4m3fn at v_scale 1/4
  std::int64_t saturated;
  std::int64_t nan_codes;
};

void PrintTo(const OverflowCase& c, std::ostream* out) {
  *out << c.name;
}

class OverflowRule : public testing::TestWithParam<OverflowCase> {};

TEST_P(OverflowRule, IsCountedAndConformsWhereDeclared) {
  const OverflowCase& c = GetParam();
  GeneratorOptions options = small_fp8_options(kE4m3);
  options.config.overflow = c.rule;
  options.v_scale = 0.25F;
  Stored stored(options);
  stored.set_plain_values();
  set_bits(stored.call.qkv, stored.v_input(0, 1, 9), c.input);
  stored.run_again();
  const std::int64_t at = stored.element(CacheOutput::v_cache, 0, 1, 9);
  ASSERT_EQ(get_bits(stored.path.v_cache, at), c.code);
  const Fp8TensorReport v = tensor(stored.report(), "v");
  EXPECT_TRUE(v.conforms);
  EXPECT_EQ(v.saturated, c.saturated);
  EXPECT_EQ(v.nan_codes, c.nan_codes);
}

// 112 = 448/4 is the largest value, 116 = 464/4 the last that rounds to it.
INSTANTIATE_TEST_SUITE_P(
    Table, OverflowRule,
    testing::Values(OverflowCase{"Largest", Overflow::saturate, 0x42E0, 0x7E, 0, 0},
                    OverflowCase{"RoundsToLargest", Overflow::saturate, 0x42E8, 0x7E, 0, 0},
                    OverflowCase{"RoundsToLargestNan", Overflow::nan, 0x42E8, 0x7E, 0, 0},
                    OverflowCase{"Saturates", Overflow::saturate, 0x42E9, 0x7E, 1, 0},
                    OverflowCase{"SaturatesNegative", Overflow::saturate, 0xC2E9, 0xFE, 1, 0},
                    OverflowCase{"SaturatesInfinity", Overflow::saturate, 0x7F80, 0x7E, 1, 0},
                    OverflowCase{"BecomesNan", Overflow::nan, 0x42E9, 0x7F, 0, 1},
                    OverflowCase{"InfinityBecomesNan", Overflow::nan, 0xFF80, 0xFF, 0, 1},
                    OverflowCase{"NanStaysNan", Overflow::saturate, 0x7FC0, 0x7F, 0, 1}),
    [](const auto& c) { return c.param.name; });

TEST(Fp8Contract, SaturatingWhereTheContractSaysNanBreaksCodeOnly) {
  GeneratorOptions options = small_fp8_options(kE4m3);
  options.config.overflow = Overflow::nan;
  Stored stored(options);
  stored.set_plain_values();
  set_bits(stored.call.qkv, stored.v_input(0, 0, 3), 0x7F80);
  stored.run_again();
  set_bits(stored.path.v_cache, stored.element(CacheOutput::v_cache, 0, 0, 3), 0x7E);
  const Fp8TensorReport v = tensor(stored.report(), "v");
  EXPECT_THAT(broken(v), ElementsAre("code"));
  EXPECT_EQ(v.saturated, 1);
}

TEST(Fp8Contract, SaturatingToTheOtherSignBreaksTheErrorBound) {
  Stored stored(small_fp8_options(kE4m3));
  set_bits(stored.call.qkv, stored.v_input(0, 0, 3), 0x7F80);
  stored.run_again();
  set_bits(stored.path.v_cache, stored.element(CacheOutput::v_cache, 0, 0, 3), 0xFE);
  EXPECT_THAT(broken(tensor(stored.report(), "v")), ElementsAre("code", "error_bound"));
}

TEST(Fp8Contract, AFiniteCodeForANanInputBreaksCodeOnly) {
  Stored stored(small_fp8_options(kE4m3));
  set_bits(stored.call.qkv, stored.v_input(0, 0, 3), 0xFFC0);
  stored.run_again();
  set_bits(stored.path.v_cache, stored.element(CacheOutput::v_cache, 0, 0, 3), 0x00);
  const Fp8TensorReport v = tensor(stored.report(), "v");
  EXPECT_THAT(broken(v), ElementsAre("code"));
  EXPECT_EQ(v.nan_inputs, 1);
}

}  // namespace
}  // namespace zerodiff::compare
