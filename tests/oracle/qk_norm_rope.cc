#include "tests/oracle/qk_norm_rope.h"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "tests/oracle/number_formats.h"

namespace zerodiff::oracle {
namespace {

float element(const Tensor& tensor, std::int64_t index) {
  const auto bits = tensor.as<std::uint16_t>();
  return static_cast<float>(decode(tensor.type(), bits[static_cast<std::size_t>(index)]));
}

float lane_sum128(const Head& v) {
  float p[32];
  for (std::size_t l = 0; l < 32; ++l) {
    p[l] = v[4 * l] + v[4 * l + 1];
    p[l] = p[l] + v[4 * l + 2];
    p[l] = p[l] + v[4 * l + 3];
  }
  for (const std::size_t m : {16, 8, 4, 2, 1}) {
    for (std::size_t l = 0; l < m; ++l) p[l] = p[l] + p[l + m];
  }
  return p[0];
}

float sequential_sum(const Head& v) {
  float sum = 0;
  for (const float value : v) sum = sum + value;
  return sum;
}

// Neighbours are added until one value is left.
float pairwise_sum(const Head& v) {
  std::vector<float> values(v.begin(), v.end());
  while (values.size() > 1) {
    std::vector<float> sums;
    for (std::size_t i = 0; i < values.size(); i += 2) sums.push_back(values[i] + values[i + 1]);
    values = sums;
  }
  return values[0];
}

// The sum overflowed or was NaN: every rsqrt gives exactly 0 or NaN then, and nothing is moved.
bool is_exceptional(float r) {
  return r == 0 || std::isnan(r);
}

float moved_by_ulps(float value, int ulps) {
  if (is_exceptional(value)) return value;
  const float infinity = std::numeric_limits<float>::infinity();
  for (; ulps > 0; --ulps) value = std::nextafter(value, infinity);
  for (; ulps < 0; ++ulps) value = std::nextafter(value, -infinity);
  return value;
}

struct CosSin {
  float cos;
  float sin;
};

// A missing row can only be that of position 0, read for a negative position: the identity.
CosSin cos_sin(const LayerCall& call, std::int64_t position, std::int64_t i) {
  std::int64_t row = position < 0 ? 0 : position;
  if (call.cos_sin_rows.present()) {
    const auto rows = call.cos_sin_rows.as<std::int64_t>();
    std::int64_t found = -1;
    for (std::size_t n = 0; n < rows.size(); ++n) {
      if (rows[n] == row) found = static_cast<std::int64_t>(n);
    }
    if (found < 0 && position < 0) return {1, 0};
    if (found < 0) throw std::logic_error("a position without a row in cos_sin_cache");
    row = found;
  }
  const std::int64_t rotary_dim = call.config.rotary_dim;
  return {element(call.cos_sin_cache, row * rotary_dim + i),
          element(call.cos_sin_cache, row * rotary_dim + rotary_dim / 2 + i)};
}

float rotated_first(RopeContraction contraction, float y, float partner, CosSin angle) {
  switch (contraction) {
    case RopeContraction::fma_cos: {
      const float product = partner * angle.sin;
      return std::fma(y, angle.cos, -product);
    }
    case RopeContraction::fma_sin: {
      const float product = y * angle.cos;
      return std::fma(-partner, angle.sin, product);
    }
    default: {
      const float left = y * angle.cos;
      const float right = partner * angle.sin;
      return left - right;
    }
  }
}

float rotated_second(RopeContraction contraction, float y, float partner, CosSin angle) {
  switch (contraction) {
    case RopeContraction::fma_cos: {
      const float product = partner * angle.sin;
      return std::fma(y, angle.cos, product);
    }
    case RopeContraction::fma_sin: {
      const float product = y * angle.cos;
      return std::fma(partner, angle.sin, product);
    }
    default: {
      const float left = y * angle.cos;
      const float right = partner * angle.sin;
      return left + right;
    }
  }
}

}  // namespace

Head read_head(const Tensor& tensor, std::int64_t first) {
  Head head;
  for (std::size_t d = 0; d < head.size(); ++d) {
    head[d] = element(tensor, first + static_cast<std::int64_t>(d));
  }
  return head;
}

float sum_of_squares(const Head& x, SumsqOrder order) {
  Head squares;
  for (std::size_t d = 0; d < squares.size(); ++d) squares[d] = x[d] * x[d];
  if (order == SumsqOrder::sequential) return sequential_sum(squares);
  if (order == SumsqOrder::pairwise) return pairwise_sum(squares);
  return lane_sum128(squares);
}

Head qk_norm(const LayerCall& call, const Choices& choices, const Head& x, const Head& weight) {
  const float ss = sum_of_squares(x, choices.sumsq_order);
  const float mean = ss * 0.0078125F;
  const float u = mean + call.config.rms_norm_eps;
  const float root = std::sqrt(u);
  const float r = moved_by_ulps(1.0F / root, choices.rsqrt_ulp);
  Head y;
  for (std::size_t d = 0; d < y.size(); ++d) {
    const float scaled = x[d] * r;
    const float factor = 1.0F + weight[d];
    y[d] = scaled * factor;
    if (choices.norm_materialised) {
      const std::uint16_t bits = encode_model_dtype(call.model_dtype(), y[d]);
      y[d] = static_cast<float>(decode(call.model_dtype(), bits));
    }
  }
  return y;
}

Head rope(const LayerCall& call, const Choices& choices, const Head& y, std::int64_t position) {
  const std::int64_t half = call.config.rotary_dim / 2;
  Head z = y;
  for (std::int64_t i = 0; i < half; ++i) {
    const CosSin angle = cos_sin(call, position, i);
    const auto first = static_cast<std::size_t>(i);
    const auto second = static_cast<std::size_t>(i + half);
    z[first] = rotated_first(choices.rope_contraction, y[first], y[second], angle);
    z[second] = rotated_second(choices.rope_contraction, y[second], y[first], angle);
  }
  return z;
}

}  // namespace zerodiff::oracle
