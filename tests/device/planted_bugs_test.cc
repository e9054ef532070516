// Every planted bug is caught: by an output that differs, or by a check of the executor.
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "device/host/host_backend.h"
#include "tests/device/paths_test_support.h"
#include "tests/device/planted/planted_bugs.h"

namespace zerodiff::device {
namespace {

HostBackend& planted_backend() {
  static HostBackend backend({.wave_width = 32, .threads = 1}, planted_kernels());
  return backend;
}

// What the real kernels make of the named calls.
const Outputs& real_outputs(std::size_t index, PathKind kind) {
  static std::map<std::pair<std::size_t, PathKind>, Outputs> cache;
  const auto [place, added] = cache.try_emplace({index, kind});
  if (added) {
    HostBackend backend({.wave_width = 32, .threads = 1});
    place->second = run_without_faults(named_calls()[index].make(), kind, backend);
  }
  return place->second;
}

// How a run of the planted kernels shows the bug; nothing if it does not.
std::optional<std::string> symptom(PlantedBug bug, std::size_t index, PathKind kind) {
  const LayerCall call = named_calls()[index].make();
  // One work-group for all heads of a tile, so that a bug meets all that a group does.
  PathOptions options;
  options.wanted_work_groups = 1;
  const PlantGuard guard(bug, call);
  const PathRun run = run_path(call, kind, planted_backend(), options);
  if (!run.report.ok()) return std::string(name_of(run.report.faults.front().kind));
  const std::string difference = first_difference(call, real_outputs(index, kind), run.outputs);
  if (difference.empty()) return std::nullopt;
  return difference;
}

// The first symptom over all calls and paths.
std::optional<std::string> first_symptom(PlantedBug bug) {
  for (std::size_t index = 0; index < named_calls().size(); ++index) {
    for (const PathKind kind : {PathKind::fused, PathKind::unfused}) {
      const std::optional<std::string> found = symptom(bug, index, kind);
      if (!found) continue;
      return named_calls()[index].name + ", " + std::string(name_of(kind)) + ": " + *found;
    }
  }
  return std::nullopt;
}

class PlantedBugs : public testing::TestWithParam<PlantedBugInfo> {};

TEST_P(PlantedBugs, AreCaught) {
  const std::optional<std::string> found = first_symptom(GetParam().bug);
  if (GetParam().bug == PlantedBug::slot_int32_overflow) {
    EXPECT_FALSE(found) << "only a pool of 2^31 elements shows it (paths_huge_pool_test)";
    return;
  }
  ASSERT_TRUE(found) << GetParam().id << ": " << GetParam().description;
  std::cout << GetParam().id << ": " << *found << "\n";
}

INSTANTIATE_TEST_SUITE_P(All, PlantedBugs, testing::ValuesIn(planted_bugs()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(PlantedKernels, ComputeTheSameWithoutABug) {
  for (std::size_t index = 0; index < named_calls().size(); ++index) {
    for (const PathKind kind : {PathKind::fused, PathKind::unfused}) {
      EXPECT_EQ(symptom(PlantedBug::none, index, kind), std::nullopt) << named_calls()[index].name;
    }
  }
}

// Faults that the executor must name, whatever the outputs.
struct ExpectedFault {
  std::string call;
  PlantedBug bug;
  PathKind kind;
  FaultKind fault;
};
const ExpectedFault kExpectedFaults[] = {
    {"bf16_prefill", PlantedBug::divergent_collective, PathKind::fused,
     FaultKind::partial_collective},
    {"bf16_prefill", PlantedBug::race_missing_sync, PathKind::fused, FaultKind::lds_unwritten_read},
    {"e5m2_infinity", PlantedBug::uninit_read, PathKind::fused, FaultKind::lds_unwritten_read},
    {"bf16_empty_rows_mixed_caches", PlantedBug::slot_neg_oob, PathKind::fused,
     FaultKind::out_of_bounds},
    {"bf16_empty_rows_mixed_caches", PlantedBug::rope_table_oob, PathKind::fused,
     FaultKind::out_of_bounds},
    {"bf16_prefill", PlantedBug::rope_inplace_race, PathKind::unfused, FaultKind::buffer_race},
    {"bf16_prefill", PlantedBug::slot_duplicate_race, PathKind::fused, FaultKind::write_conflict},
};

TEST(PlantedKernels, FailTheExecutorsChecks) {
  for (const ExpectedFault& expected : kExpectedFaults) {
    std::size_t index = 0;
    while (named_calls().at(index).name != expected.call) ++index;
    EXPECT_EQ(symptom(expected.bug, index, expected.kind), name_of(expected.fault))
        << static_cast<int>(expected.bug) << " " << expected.call;
  }
}

TEST(PlantedBugList, CoversEachClassOnceAndNamesWhatItLeavesOut) {
  std::set<std::string_view> names;
  std::set<std::string_view> planted;
  for (const PlantedBugInfo& bug : planted_bugs()) {
    EXPECT_TRUE(names.insert(bug.name).second) << bug.name;
    planted.insert(bug.id);
  }
  EXPECT_GE(names.size(), 40U);
  EXPECT_GE(planted_attention_bugs().size(), 20U);
  for (const PlantedBugInfo& bug : planted_attention_bugs()) {
    EXPECT_TRUE(names.insert(bug.name).second) << bug.name;
    planted.insert(bug.id);
  }
  for (const UnplantedClass& absent : unplanted_classes()) {
    EXPECT_FALSE(planted.contains(absent.id)) << absent.id;
    EXPECT_FALSE(absent.reason.empty()) << absent.id;
  }
}

}  // namespace
}  // namespace zerodiff::device
