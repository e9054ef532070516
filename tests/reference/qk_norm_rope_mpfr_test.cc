// reference/qk_norm_rope.h against MPFR: each operation exact, then rounded once to binary32.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "fixtures/generator.h"
#include "reference/qk_norm_rope.h"
#include "tests/oracle/number_formats.h"
#include "tests/reference/binary32.h"
#include "tests/reference/same_float.h"

namespace zerodiff::reference {
namespace {

using test::Binary32;
using test::Binary32Range;
using test::same;
using Head = std::array<float, kHeadDim>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Binary32 mpfr_lane_sum(const std::vector<Binary32>& v) {
  std::vector<Binary32> p;
  for (std::size_t l = 0; l < 32; ++l) {
    p.push_back(((v[4 * l] + v[4 * l + 1]) + v[4 * l + 2]) + v[4 * l + 3]);
  }
  for (std::size_t m = 16; m > 0; m /= 2) {
    for (std::size_t l = 0; l < m; ++l) p[l] = p[l] + p[l + m];
  }
  return p[0];
}

Binary32 mpfr_sequential_sum(const std::vector<Binary32>& v) {
  Binary32 sum = v[0];
  for (std::size_t i = 1; i < v.size(); ++i) sum = sum + v[i];
  return sum;
}

Binary32 mpfr_pairwise_sum(std::vector<Binary32> v) {
  for (std::size_t left = v.size(); left > 1; left /= 2) {
    for (std::size_t i = 0; i < left / 2; ++i) v[i] = v[2 * i] + v[2 * i + 1];
  }
  return v[0];
}

float mpfr_sum_of_squares(const Head& x, SumsqOrder order) {
  std::vector<Binary32> squares;
  for (const float value : x) squares.push_back(Binary32(value) * Binary32(value));
  switch (order) {
    case SumsqOrder::lane_sum128:
      return mpfr_lane_sum(squares).to_float();
    case SumsqOrder::sequential:
      return mpfr_sequential_sum(squares).to_float();
    case SumsqOrder::pairwise:
      return mpfr_pairwise_sum(squares).to_float();
  }
  return kNan;
}

float mpfr_reciprocal_rms(float ss, float eps) {
  const Binary32 u = Binary32(ss) * Binary32(0x1p-7F) + Binary32(eps);
  return (Binary32(1) / sqrt(u)).to_float();
}

struct Pair {
  Binary32 first;
  Binary32 second;
};

Pair mpfr_rotate(RopeContraction contraction, const Binary32& y, const Binary32& partner,
                 const Binary32& c, const Binary32& s) {
  switch (contraction) {
    case RopeContraction::fma_cos:
      return {fma(y, c, -(partner * s)), fma(partner, c, y * s)};
    case RopeContraction::fma_sin:
      return {fma(-partner, s, y * c), fma(y, s, partner * c)};
    case RopeContraction::separate:
      return {y * c - partner * s, partner * c + y * s};
  }
  return {kNan, kNan};
}

Head mpfr_rope(const Head& y, const RopeRow& rope, RopeContraction contraction) {
  Head z = y;
  const auto half = static_cast<std::size_t>(rope.half);
  for (std::size_t i = 0; i < half; ++i) {
    const Pair pair = mpfr_rotate(contraction, y[i], y[i + half], rope.cos.at(i), rope.sin.at(i));
    z[i] = pair.first.to_float();
    z[i + half] = pair.second.to_float();
  }
  return z;
}

// Heads of one kind, decoded, and the call that they come from.
struct Heads {
  LayerCall call;
  std::vector<Head> heads;
  Head weight;  // w + 1, rounded
};

Head decode_head(const Tensor& tensor, std::size_t first) {
  Head head;
  for (std::size_t d = 0; d < head.size(); ++d) {
    const std::uint16_t bits = tensor.as<std::uint16_t>()[first + d];
    head[d] = static_cast<float>(oracle::decode(tensor.type(), bits));
  }
  return head;
}

GeneratorOptions options_for(ActivationKind kind, ElementType model_dtype, std::uint64_t seed) {
  GeneratorOptions options;
  options.seed = seed;
  options.model_dtype = model_dtype;
  options.activations = kind;
  options.max_context = 3000;
  options.max_context_blocks = 1;
  options.config.num_heads = 6;
  options.config.num_kv_heads = 2;
  options.config.num_index_heads = 2;
  options.config.rotary_dim = 64;
  options.config.rms_norm_eps = 1e-6F;
  options.config.sm_scale = 0.1F;
  options.config.num_tokens = 8;
  options.num_requests = 8;
  return options;
}

Heads make_heads(ActivationKind kind, ElementType model_dtype, std::uint64_t seed) {
  Heads made;
  made.call = generate_call(options_for(kind, model_dtype, seed));
  const auto elements = static_cast<std::size_t>(made.call.qkv.size());
  for (std::size_t first = 0; first < elements; first += kHeadDim) {
    made.heads.push_back(decode_head(made.call.qkv, first));
  }
  made.weight = decode_head(made.call.q_norm_weight, 0);
  for (float& w : made.weight) w = (Binary32(1) + Binary32(w)).to_float();
  return made;
}

struct KindRow {
  ActivationKind kind;
  ElementType model_dtype;
};
void PrintTo(const KindRow& row, std::ostream* out) {
  *out << name_of(row.kind) << " " << name_of(row.model_dtype);
}

class AgainstMpfr : public testing::TestWithParam<KindRow> {
 protected:
  static constexpr std::uint64_t kSeeds = 3;
  Heads heads(std::uint64_t seed) const {
    return make_heads(GetParam().kind, GetParam().model_dtype, seed);
  }
  Binary32Range range_;
};

TEST_P(AgainstMpfr, SumOfSquaresInEveryOrder) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const Head& x : heads(seed).heads) {
      for (const SumsqOrder order :
           {SumsqOrder::lane_sum128, SumsqOrder::sequential, SumsqOrder::pairwise}) {
        ASSERT_TRUE(same(mpfr_sum_of_squares(x, order), sum_of_squares(x, order)))
            << "seed " << seed << " order " << static_cast<int>(order);
      }
    }
  }
}

TEST_P(AgainstMpfr, NormOfHeads) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Heads made = heads(seed);
    for (const Head& x : made.heads) {
      const float ss = mpfr_sum_of_squares(x, SumsqOrder::lane_sum128);
      const float r = mpfr_reciprocal_rms(ss, 1e-6F);
      ASSERT_TRUE(same(r, reciprocal_rms(ss, 1e-6F, 0))) << "seed " << seed;
      Head y = x;
      apply_norm(y, r, made.weight);
      for (std::size_t d = 0; d < y.size(); ++d) {
        const Binary32 expected = (Binary32(x[d]) * Binary32(r)) * Binary32(made.weight[d]);
        ASSERT_TRUE(same(expected.to_float(), y[d])) << "seed " << seed << " dim " << d;
      }
    }
  }
}

TEST_P(AgainstMpfr, RopeOfHeadsInEveryContraction) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Heads made = heads(seed);
    const auto positions = made.call.positions.as<std::int64_t>();
    const RopeTable table(made.call);
    for (std::size_t n = 0; n < made.heads.size(); ++n) {
      const RopeRow rope = table.row(positions[n % positions.size()]);
      for (const RopeContraction contraction :
           {RopeContraction::fma_cos, RopeContraction::separate, RopeContraction::fma_sin}) {
        const Head expected = mpfr_rope(made.heads[n], rope, contraction);
        Head z = made.heads[n];
        apply_rope(z, rope, contraction);
        for (std::size_t d = 0; d < z.size(); ++d) {
          ASSERT_TRUE(same(expected[d], z[d])) << "seed " << seed << " head " << n << " dim " << d
                                               << " contraction " << static_cast<int>(contraction);
        }
      }
    }
  }
}

// The whole stage, fp32 z of every branch.
TEST_P(AgainstMpfr, RowsOfACall) {
  const LayerCall call = generate_call(options_for(GetParam().kind, GetParam().model_dtype, 7));
  const QkNormRope stage(call);
  const RopeTable table(call);
  struct Branch {
    std::vector<float> RotatedRow::*z;
    const Tensor* weight;
    std::size_t first;
  };
  const Branch branches[] = {{&RotatedRow::q, &call.q_norm_weight, 0},
                             {&RotatedRow::k, &call.k_norm_weight, 6},
                             {&RotatedRow::index_q, &call.index_q_norm_weight, 10},
                             {&RotatedRow::index_k, &call.index_k_norm_weight, 12}};
  RotatedRow row;
  for (std::int64_t t = 0; t < call.capacity(); ++t) {
    stage.rotate_row(t, row);
    const auto first_of_row = static_cast<std::size_t>(t * call.config.row_elements());
    const RopeRow rope = table.row(call.positions.as<std::int64_t>()[static_cast<std::size_t>(t)]);
    for (const Branch& branch : branches) {
      const std::vector<float>& z = row.*branch.z;
      for (std::size_t h = 0; h < z.size() / kHeadDim; ++h) {
        Head y = decode_head(call.qkv, first_of_row + (branch.first + h) * kHeadDim);
        const Head weight = decode_head(*branch.weight, 0);
        const float r = mpfr_reciprocal_rms(mpfr_sum_of_squares(y, SumsqOrder::lane_sum128), 1e-6F);
        for (std::size_t d = 0; d < y.size(); ++d) {
          y[d] = ((Binary32(y[d]) * Binary32(r)) * (Binary32(1) + Binary32(weight[d]))).to_float();
        }
        const Head expected = mpfr_rope(y, rope, RopeContraction::fma_cos);
        for (std::size_t d = 0; d < y.size(); ++d) {
          ASSERT_TRUE(same(expected[d], z[h * kHeadDim + d]))
              << "row " << t << " branch " << branch.first << " head " << h << " dim " << d;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    QkNormRope, AgainstMpfr,
    testing::Values(KindRow{ActivationKind::heavy_tailed, ElementType::bfloat16},
                    KindRow{ActivationKind::heavy_tailed, ElementType::float16},
                    KindRow{ActivationKind::tiny, ElementType::bfloat16},
                    KindRow{ActivationKind::tiny, ElementType::float16},
                    KindRow{ActivationKind::wide, ElementType::bfloat16},
                    KindRow{ActivationKind::wide, ElementType::float16}),
    [](const auto& row) {
      return std::string(name_of(row.param.kind)) + "_" +
             std::string(name_of(row.param.model_dtype));
    });

// Binary exponents of ss over the whole range, and the values where formulas break.
TEST(ReciprocalRms, EveryMagnitudeAgainstMpfr) {
  const Binary32Range range;
  std::vector<float> sums{0.0F, std::numeric_limits<float>::denorm_min(),
                          std::numeric_limits<float>::max(), kInfinity, kNan};
  for (int exponent = -149; exponent < 128; ++exponent) {
    for (const float mantissa : {1.0F, 0x1.000002p0F, 0x1.5p0F, 0x1.fffffep0F}) {
      sums.push_back(std::ldexp(mantissa, exponent));
    }
  }
  for (const float eps : {1e-6F, 1e-5F, 1.0F, 1e-30F, std::numeric_limits<float>::denorm_min()}) {
    for (const float ss : sums) {
      ASSERT_TRUE(same(mpfr_reciprocal_rms(ss, eps), reciprocal_rms(ss, eps, 0)))
          << "ss " << ss << " eps " << eps;
    }
  }
}

}  // namespace
}  // namespace zerodiff::reference
