// The fp8 contract report of writers that conform, and what it covers.
#include "compare/fp8_contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/compare/fp8_stored.h"

namespace zerodiff::compare {
namespace {

using testing::ElementsAre;

constexpr ElementType kE4m3 = ElementType::float8_e4m3fn;

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
