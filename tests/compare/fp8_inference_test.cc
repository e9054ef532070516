// The contract that codes were written by, told from the codes alone.
#include "compare/fp8_inference.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "fixtures/capture.h"
#include "reference/layer.h"
#include "reference/number_formats.h"
#include "tests/compare/small_call.h"

namespace zerodiff::compare {
namespace {

const InferredClause& clause(const Fp8Inference& inference, const std::string& name) {
  for (const InferredClause& one : inference.clauses) {
    if (one.name == name) return one;
  }
  ADD_FAILURE() << "no clause " << name << " of " << inference.tensor;
  static const InferredClause kNone;
  return kNone;
}

struct Written {
  ElementType format;
  std::string direction;  // "divided", "multiplied", "ignored"
  ScaleOp op;
  QuantizeFrom source;
};

float scaled(const Written& by, float value, float scale) {
  if (by.direction == "ignored") return value;
  if (by.direction == "multiplied") return value * scale;
  return by.op == ScaleOp::divide ? value / scale : value * (1.0F / scale);
}

// 64 rows of one head, normal values, a scale that is no power of two.
std::vector<Fp8Sample> written_rows(const Written& by, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 2);
  std::vector<Fp8Sample> samples(64 * 128);
  constexpr float kScale = 0.37F;
  for (Fp8Sample& sample : samples) {
    sample.z = normal(random);
    sample.rounded = reference::round_to_model_dtype(ElementType::bfloat16, sample.z);
    sample.scale = sample.first_scale = kScale;
    const float value = by.source == QuantizeFrom::fp32 ? sample.z : sample.rounded;
    sample.code = reference::encode_fp8(by.format, scaled(by, value, kScale), Overflow::saturate);
  }
  return samples;
}

std::vector<Written> all_ways() {
  std::vector<Written> ways;
  for (const ElementType format : {ElementType::float8_e4m3fn, ElementType::float8_e4m3fnuz,
                                   ElementType::float8_e5m2, ElementType::float8_e5m2fnuz}) {
    for (const char* direction : {"divided", "multiplied", "ignored"}) {
      for (const ScaleOp op : {ScaleOp::multiply_reciprocal, ScaleOp::divide}) {
        for (const QuantizeFrom source : {QuantizeFrom::model_dtype, QuantizeFrom::fp32}) {
          ways.push_back({format, direction, op, source});
        }
      }
    }
  }
  return ways;
}

TEST(Fp8Inference, SixtyFourRowsTellFormatDirectionAndSource) {
  for (const Written& by : all_ways()) {
    for (const std::uint64_t seed : {11, 12}) {
      SCOPED_TRACE(testing::Message()
                   << name_of(by.format) << " " << by.direction << " " << name_of(by.op) << " "
                   << name_of(by.source) << " seed " << seed);
      const Fp8Inference inference = infer_fp8(written_rows(by, seed), DeclaredFp8{});
      ASSERT_TRUE(inference.found);
      EXPECT_EQ(inference.unexplained, 0);
      EXPECT_EQ(clause(inference, "format").inferred, name_of(by.format));
      EXPECT_EQ(clause(inference, "direction").inferred, by.direction);
      EXPECT_EQ(clause(inference, "source").inferred, name_of(by.source));
      for (const char* name : {"format", "direction", "source"}) {
        EXPECT_TRUE(clause(inference, name).told) << name;
        EXPECT_GT(clause(inference, name).deciding, 0) << name;
      }
      // Either told right or not at all: a few elements decide, or none.
      const InferredClause& operation = clause(inference, "operation");
      if (operation.told && by.direction == "divided") {
        EXPECT_EQ(operation.inferred, name_of(by.op));
        EXPECT_GT(operation.deciding, 0);
      }
    }
  }
}

TEST(Fp8Inference, HeldAgainstTheDeclarationClauseByClause) {
  const Written by{ElementType::float8_e4m3fn, "divided", ScaleOp::divide, QuantizeFrom::fp32};
  const Fp8Inference inference = infer_fp8(written_rows(by, 3), DeclaredFp8{});
  EXPECT_TRUE(clause(inference, "format").agrees);
  EXPECT_TRUE(clause(inference, "direction").agrees);
  EXPECT_FALSE(clause(inference, "source").agrees);
}

TEST(Fp8Inference, UnitScaleHidesDirectionAndOperation) {
  std::vector<Fp8Sample> samples =
      written_rows({ElementType::float8_e4m3fn, "ignored", ScaleOp::divide, QuantizeFrom::fp32}, 5);
  for (Fp8Sample& sample : samples) sample.scale = sample.first_scale = 1;
  const Fp8Inference inference = infer_fp8(samples, DeclaredFp8{});
  for (const char* name : {"direction", "operation"}) {
    EXPECT_FALSE(clause(inference, name).told) << name;
    EXPECT_TRUE(clause(inference, name).agrees) << name;
    EXPECT_EQ(clause(inference, name).deciding, 0) << name;
    EXPECT_EQ(clause(inference, name).inferred, "cannot be told apart") << name;
  }
}

TEST(Fp8Inference, OverflowIsToldByValuesPastTheLargest) {
  for (const Overflow overflow : {Overflow::saturate, Overflow::nan}) {
    std::vector<Fp8Sample> samples(300);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      Fp8Sample& sample = samples[i];
      sample.z = sample.rounded = static_cast<float>(i) * 2.0F;
      sample.code = reference::encode_fp8(ElementType::float8_e4m3fn, sample.z, overflow);
    }
    DeclaredFp8 declared;
    declared.scaled = false;
    const Fp8Inference inference = infer_fp8(samples, declared);
    EXPECT_EQ(clause(inference, "overflow").inferred, name_of(overflow));
    EXPECT_EQ(clause(inference, "overflow").agrees, overflow == Overflow::saturate);
  }
}

TEST(Fp8Inference, OneScaleInPlaceOfOneASlotIsTold) {
  GeneratorOptions options = small_fp8_options(ElementType::float8_e4m3fn, 7);
  options.config.scale_granularity = ScaleGranularity::head_slot;
  const LayerCall call = generate_call(options);
  const Outputs right = reference::run_insertion(call, {}, 1);
  LayerCall one_scale = call;
  for (float& scale : one_scale.k_scale.as<float>()) scale = call.k_scale.as<float>()[0];
  const Outputs wrong = reference::run_insertion(one_scale, {}, 1);
  EXPECT_EQ(clause(infer_fp8_contract(call, {"right", &right})[0], "granularity").inferred,
            "head_slot");
  const auto found = infer_fp8_contract(call, {"wrong", &wrong});
  EXPECT_EQ(clause(found[0], "granularity").inferred, "tensor");
  EXPECT_FALSE(clause(found[0], "granularity").agrees);
}

TEST(Fp8Inference, RandomCodesHaveNoContract) {
  std::vector<Fp8Sample> samples =
      written_rows({ElementType::float8_e4m3fn, "divided", ScaleOp::divide, QuantizeFrom::fp32}, 8);
  std::mt19937_64 random(8);
  for (Fp8Sample& sample : samples) sample.code = static_cast<std::uint8_t>(random());
  const Fp8Inference inference = infer_fp8(samples, DeclaredFp8{});
  EXPECT_FALSE(inference.found);
  for (const InferredClause& one : inference.clauses) EXPECT_FALSE(one.told) << one.name;
}

TEST(Fp8Inference, AtomQuantisesFromFp32) {
  CaptureReader reader("fixtures/captured/m3_small_decode_fp8.h5", {.probe_in_child = false});
  const Outputs atom = reader.read_path("atom_fused");
  const Outputs nvcc = reader.read_path("nvcc_fused");
  for (const Fp8Inference& inference : infer_fp8_contract(reader.call(), {"atom_fused", &atom})) {
    EXPECT_EQ(inference.unexplained, 0) << inference.tensor;
    if (inference.tensor == "v") continue;
    EXPECT_EQ(clause(inference, "source").inferred, "fp32") << inference.tensor;
    EXPECT_EQ(clause(inference, "source").agrees, inference.tensor == "index_q");
  }
  for (const Fp8Inference& inference : infer_fp8_contract(reader.call(), {"nvcc_fused", &nvcc})) {
    for (const InferredClause& one : inference.clauses) {
      EXPECT_TRUE(one.agrees) << inference.tensor << " " << one.name << " " << one.inferred;
    }
  }
}

}  // namespace
}  // namespace zerodiff::compare
