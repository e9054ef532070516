// The checks of selftest.h, and what they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/backend.h"
#include "device/selftest/selftest.h"
#include "fixtures/tensor.h"

namespace zerodiff::device {

SelftestResult check_square_root(Backend& backend, const SelftestOptions& options);
SelftestResult check_division(Backend& backend, const SelftestOptions& options);
SelftestResult check_fma(Backend& backend, const SelftestOptions& options);
SelftestResult check_contraction(Backend& backend, const SelftestOptions& options);
SelftestResult check_denormals(Backend& backend, const SelftestOptions& options);
SelftestResult check_conversions16(Backend& backend, const SelftestOptions& options);
SelftestResult check_conversions8(Backend& backend, const SelftestOptions& options);
SelftestResult check_shuffles(Backend& backend, const SelftestOptions& options);
SelftestResult check_lane_sums(Backend& backend, const SelftestOptions& options);
SelftestResult check_lds(Backend& backend, const SelftestOptions& options);
SelftestResult check_graph_replay(Backend& backend, const SelftestOptions& options);
SelftestResult check_canaries(Backend& backend, const SelftestOptions& options);

// Compares elements and remembers the first that differs. NaNs are equal whatever their payload.
class SelftestTally {
 public:
  SelftestTally(std::string name, std::string what);

  // `inputs()` says what the element was made of; it is asked for the first mismatch alone.
  template <class Inputs>
  void compare(float found, float wanted, const Inputs& inputs) {
    note(same(found, wanted), [&] { return text(found, wanted) + " of " + inputs(); });
  }
  template <class Inputs>
  void compare(std::int64_t found, std::int64_t wanted, const Inputs& inputs) {
    note(found == wanted, [&] { return text(found, wanted) + " of " + inputs(); });
  }
  template <class Describe>
  void note(bool equal, const Describe& describe) {
    ++result_.checked;
    if (equal) return;
    if (result_.mismatches++ == 0) result_.first = describe();
  }
  // A run that ended in a fault, which fails the check. Returns whether there was none.
  bool ran(const RunReport& report);

  SelftestResult result() && { return std::move(result_); }

 private:
  static bool same(float found, float wanted);
  static std::string text(float found, float wanted);
  static std::string text(std::int64_t found, std::int64_t wanted);

  SelftestResult result_;
};

// "1.5 (0x3fc00000)"
std::string number_text(float value);

// Every stride-th of the values, at least one, and then the last one again and again up to a
// multiple of `multiple`.
std::vector<float> thinned(const std::vector<float>& values, std::int64_t stride,
                           std::size_t multiple = 1);

// Values as a buffer of the list, which keeps its own copy.
template <class T>
BufferId add_values(LaunchList& list, std::string name, ElementType type,
                    const std::vector<T>& values) {
  Tensor tensor = Tensor::allocate(type, {static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as<T>().begin());
  return list.add_input(std::move(name), std::move(tensor));
}

// A launch of one thread for each of n elements.
Launch selftest_launch(std::string kernel, std::int64_t n, std::vector<Argument> arguments);

template <class T>
std::vector<T> downloaded(const ResidentLaunchList& resident, const LaunchList& list,
                          BufferId buffer) {
  std::vector<T> values(static_cast<std::size_t>(list.buffer(buffer).count));
  resident.download(buffer, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace zerodiff::device
