#include "compare/norm_factor.h"

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>

namespace zerodiff::compare {
namespace {

constexpr double kGamma = 127 * 0x1p-24;

std::int32_t place(float r) {
  return std::bit_cast<std::int32_t>(r);
}

// Of squares rounded once, as every order adds them; exact but for the last bits of binary64.
double mean_square(reference::ConstHeadSpan x) {
  const Eigen::Map<const Eigen::Array<float, kHeadDim, 1>> values(x.data());
  return values.square().cast<double>().sum() * 0x1p-7;
}

}  // namespace

float NormFactor::moved(std::int32_t steps) const {
  return std::bit_cast<float>(place(r) + steps);
}

NormFactor contract_factor(reference::ConstHeadSpan x, float eps) {
  const float ss = reference::sum_of_squares(x, reference::SumsqOrder::lane_sum128);
  return {reference::reciprocal_rms(ss, eps, 0), 0, 0};
}

void widen(NormFactor& factor, reference::ConstHeadSpan x, float eps,
           const FactorFreedom& freedom) {
  if (freedom.ulps == 0 && !freedom.any_order) return;
  if (factor.r == 0.0F || !std::isfinite(factor.r)) return;
  const double u = mean_square(x) + static_cast<double>(eps);
  const double gamma = freedom.any_order ? kGamma : 0;
  const auto smallest = static_cast<float>(1 / std::sqrt(u * (1 + gamma)));
  const auto largest = static_cast<float>(1 / std::sqrt(u * (1 - gamma)));
  if (!(smallest > 0) || !std::isfinite(largest)) return;
  factor.below = std::max(0, place(factor.r) - place(smallest)) + freedom.ulps;
  factor.above = std::max(0, place(largest) - place(factor.r)) + freedom.ulps;
}

}  // namespace zerodiff::compare
