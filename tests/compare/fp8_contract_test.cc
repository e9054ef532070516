// The fp8 contract report: what conforms, and one planted violation of every clause.
#include "compare/fp8_contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <tuple>

#include "compare/written_elements.h"
#include "reference/layer.h"
#include "reference/number_formats.h"
#include "reference/qk_norm_rope.h"
#include "tests/compare/small_call.h"
#include "tests/compare/tensor_bits.h"

namespace zerodiff::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr ElementType kE4m3 = ElementType::float8_e4m3fn;

const Fp8TensorReport& tensor(const Fp8ContractReport& report, const std::string& name) {
  for (const Fp8TensorReport& candidate : report.tensors) {
    if (candidate.tensor == name) return candidate;
  }
  ADD_FAILURE() << "no tensor " << name;
  static const Fp8TensorReport kNone;
  return kNone;
}

const Fp8Clause& clause(const Fp8TensorReport& report, const std::string& name) {
  for (const Fp8Clause& candidate : report.clauses) {
    if (candidate.name == name) return candidate;
  }
  ADD_FAILURE() << "no clause " << name << " of " << report.tensor;
  static const Fp8Clause kNone;
  return kNone;
}

std::vector<std::string> broken(const Fp8TensorReport& report) {
  std::vector<std::string> names;
  for (const Fp8Clause& candidate : report.clauses) {
    if (candidate.violations > 0) names.push_back(candidate.name);
  }
  return names;
}

// A call, what the reference stores, and a path to spoil.
class Stored {
 public:
  explicit Stored(const GeneratorOptions& options)
      : call(generate_call(options)), path(reference::run_insertion(call, {}, 1)) {}

  Fp8ContractReport report(int threads = 1) const {
    return fp8_contract_report(call, {{"path", &path}}, threads);
  }
  void run_again() { path = reference::run_insertion(call, {}, 1); }

  // Flat index, in k_cache or v_cache, of an element of the row-th row that stores.
  std::int64_t element(CacheOutput output, std::size_t row, std::int64_t head,
                       std::int64_t dim) const {
    CacheElement where;
    where.plane = output == CacheOutput::v_cache ? kValuePlane : kKeyPlane;
    where.slot = written_slots(call).kv_slot_of_row[static_cast<std::size_t>(token(row))];
    where.head = head;
    where.dim = dim;
    return CacheGeometry(call, output).flat_index(where);
  }
  std::int64_t token(std::size_t row) const { return stored_rows(call).at(row); }

  // Element of v in the packed row of the row-th row that stores.
  std::int64_t v_input(std::size_t row, std::int64_t head, std::int64_t dim) const {
    const LayerConfig& config = call.config;
    return token(row) * config.row_elements() +
           (config.num_heads + config.num_kv_heads + head) * kHeadDim + dim;
  }

  LayerCall call;
  Outputs path;
};

using Contract = std::tuple<ElementType, ScaleOp, QuantizeFrom, Overflow, ScaleGranularity>;

class ConformingWriter : public testing::TestWithParam<Contract> {};

TEST_P(ConformingWriter, IsTheReferenceUnderEveryDeclaration) {
  const auto [format, op, from, overflow, granularity] = GetParam();
  for (const KvStorage storage : {KvStorage::separate, KvStorage::block_contiguous}) {
    GeneratorOptions options = small_fp8_options(format);
    options.config.scale_op = op;
    options.config.quantize_from = from;
    options.config.overflow = overflow;
    options.config.scale_granularity = granularity;
    options.config.kv_storage = storage;
    options.k_scale = 0.003F;  // some values overflow e4m3
    const Stored stored(options);
    const Fp8ContractReport report = stored.report();
    EXPECT_TRUE(report.applies);
    ASSERT_EQ(report.tensors.size(), 4U);
    for (const Fp8TensorReport& one : report.tensors) {
      EXPECT_TRUE(one.conforms) << one.tensor << " " << describe(options);
      EXPECT_THAT(broken(one), ElementsAre()) << one.tensor;
      EXPECT_EQ(one.path, "path");
      EXPECT_EQ(one.format, name_of(format));
      EXPECT_GT(one.written, 0);
      EXPECT_LE(one.largest_error_steps, 0.5 * (1 + 0x1p-18)) << one.tensor;
      EXPECT_GT(one.largest_error_steps, 0.4) << one.tensor;
      for (const Fp8Clause& part : one.clauses) EXPECT_GT(part.checked, 0) << part.name;
    }
    const auto rows = std::ssize(stored_rows(stored.call));
    EXPECT_EQ(tensor(report, "k").written, rows * 2 * kHeadDim);
    EXPECT_EQ(tensor(report, "v").written, rows * 2 * kHeadDim);
    EXPECT_EQ(tensor(report, "index_k").written, rows * kHeadDim);
    EXPECT_EQ(tensor(report, "index_q").written, 9 * 2 * kHeadDim);
    const std::int64_t scales = granularity == ScaleGranularity::tensor ? 1 : rows * 2;
    EXPECT_EQ(clause(tensor(report, "k"), "scale").checked, scales);
    EXPECT_EQ(clause(tensor(report, "k"), "scale").declared, name_of(granularity));
  }
}

std::string contract_name(const testing::TestParamInfo<Contract>& info) {
  const auto [format, op, from, overflow, granularity] = info.param;
  return std::string(name_of(format)) + "_" + std::string(name_of(op)) + "_" +
         std::string(name_of(from)) + "_" + std::string(name_of(overflow)) + "_" +
         std::string(name_of(granularity));
}

INSTANTIATE_TEST_SUITE_P(
    Declarations, ConformingWriter,
    testing::Combine(testing::Values(ElementType::float8_e4m3fn, ElementType::float8_e4m3fnuz,
                                     ElementType::float8_e5m2, ElementType::float8_e5m2fnuz),
                     testing::Values(ScaleOp::multiply_reciprocal, ScaleOp::divide),
                     testing::Values(QuantizeFrom::model_dtype, QuantizeFrom::fp32),
                     testing::Values(Overflow::saturate, Overflow::nan),
                     testing::Values(ScaleGranularity::tensor, ScaleGranularity::head_slot)),
    contract_name);

TEST(Fp8Contract, RandomCallsConform) {
  int fp8 = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const GeneratorOptions options = random_options(seed);
    const Stored stored(options);
    const Fp8ContractReport report = stored.report(2);
    for (const Fp8TensorReport& one : report.tensors) {
      ASSERT_TRUE(one.conforms) << one.tensor << " " << describe(options);
    }
    fp8 += report.tensors.empty() ? 0 : 1;
  }
  EXPECT_GT(fp8, 50);
}

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

TEST(Fp8Contract, ListsPathsInOrderAndOnlyWhatTheyHave) {
  const Stored stored(small_fp8_options(kE4m3));
  Outputs part;
  part.k_cache = stored.path.k_cache;
  part.index_q = stored.path.index_q;
  const Fp8ContractReport report =
      fp8_contract_report(stored.call, {{"reference", &stored.path}, {"part", &part}});
  std::vector<std::string> names;
  for (const Fp8TensorReport& one : report.tensors) names.push_back(one.path + " " + one.tensor);
  EXPECT_THAT(names, ElementsAre("reference k", "reference v", "reference index_k",
                                 "reference index_q", "part k", "part index_q"));
  EXPECT_EQ(report.declared,
            "K/V fp8_e4m3fn, index fp8_e4m3fn, scale_op multiply_reciprocal, quantize_from "
            "model_dtype, overflow saturate, scale_granularity tensor, index_q_from fp32");
}

TEST(Fp8Contract, AppliesOnlyToFp8Tensors) {
  const Stored none(small_options());
  EXPECT_FALSE(none.report().applies);
  EXPECT_TRUE(none.report().tensors.empty());

  GeneratorOptions options = small_options();
  options.config.index_cache_dtype = kE4m3;
  const Stored index_only(options);
  EXPECT_TRUE(index_only.report().applies);
  EXPECT_EQ(index_only.report().tensors.size(), 2U);
  EXPECT_TRUE(tensor(index_only.report(), "index_k").conforms);

  options.config.skip_index_branch = true;
  const Stored skipped(options);
  EXPECT_FALSE(skipped.report().applies);
}

TEST(Fp8Contract, ThreadsChangeNothing) {
  GeneratorOptions options = small_fp8_options(kE4m3, 8);
  Stored stored(options);
  reference::Choices choices;
  choices.quantize_from = QuantizeFrom::fp32;
  stored.path = reference::run_insertion(stored.call, choices, 1);
  const Fp8ContractReport one = stored.report(1);
  for (const int threads : {2, 3, 64, 0}) {
    const Fp8ContractReport many = stored.report(threads);
    ASSERT_EQ(many.tensors.size(), one.tensors.size());
    for (std::size_t i = 0; i < one.tensors.size(); ++i) {
      const Fp8TensorReport& a = one.tensors[i];
      const Fp8TensorReport& b = many.tensors[i];
      EXPECT_EQ(a.written, b.written);
      EXPECT_EQ(a.saturated, b.saturated);
      EXPECT_EQ(a.zero_codes, b.zero_codes);
      EXPECT_EQ(a.largest_error_steps, b.largest_error_steps);
      for (std::size_t c = 0; c < a.clauses.size(); ++c) {
        EXPECT_EQ(a.clauses[c].checked, b.clauses[c].checked);
        EXPECT_EQ(a.clauses[c].violations, b.clauses[c].violations);
        EXPECT_EQ(a.clauses[c].detail, b.clauses[c].detail) << threads;
      }
    }
  }
}

}  // namespace
}  // namespace zerodiff::compare
