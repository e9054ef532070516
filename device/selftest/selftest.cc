#include "device/selftest/selftest.h"

#include <algorithm>
#include <array>

#include "device/selftest/selftest_checks.h"
#include "fixtures/error.h"

namespace zerodiff::device {

std::span<const SelftestCheck> selftest_checks() {
  static constexpr std::array kChecks{
      SelftestCheck{"square root", &check_square_root},
      SelftestCheck{"division", &check_division},
      SelftestCheck{"fma", &check_fma},
      SelftestCheck{"contraction", &check_contraction},
      SelftestCheck{"denormals", &check_denormals},
      SelftestCheck{"16-bit conversions", &check_conversions16},
      SelftestCheck{"8-bit conversions", &check_conversions8},
      SelftestCheck{"shuffles", &check_shuffles},
      SelftestCheck{"lane sums", &check_lane_sums},
      SelftestCheck{"LDS and barriers", &check_lds},
      SelftestCheck{"graph replay", &check_graph_replay},
      SelftestCheck{"canaries", &check_canaries},
  };
  return kChecks;
}

bool SelftestReport::passed() const {
  return !results.empty() && std::ranges::all_of(results, &SelftestResult::passed);
}

SelftestReport run_selftest(Backend& backend, const SelftestOptions& options) {
  SelftestReport report;
  for (const SelftestCheck& check : selftest_checks()) {
    try {
      report.results.push_back(check.run(backend, options));
    } catch (const Error& error) {
      report.results.push_back(
          {.name = std::string(check.name), .what = {}, .first = error.what()});
    }
  }
  return report;
}

}  // namespace zerodiff::device
