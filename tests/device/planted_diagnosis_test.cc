// What the diagnosis says of every bug planted in the insertion kernels: detected, named, placed.
// The kernels share no code with the hypotheses.
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compare/diagnose.h"
#include "compare/output_comparison.h"
#include "device/host/host_backend.h"
#include "reference/layer.h"
#include "tests/device/paths_test_support.h"
#include "tests/device/planted/planted_bugs.h"

namespace zerodiff::device {
namespace {

// Classes of docs/faults.md, 1.1 to 1.6 and 2, that these kernels show by outputs of one call
// alone: the executor stops the others (two rows in one slot, addresses before the pool, rows
// before the table, races), and tests/compare/diagnosis_matrix_test.cc has those. Section 1.10 is about
// lanes and races, which no counterfactual predicts.
const std::set<std::string_view> kElsewhere{
    "slot-neg1-wraps-last", "slot-pad-to-zero", "slot-neg-oob",     "slot-duplicate-race",
    "slot-int32-overflow",  "rope-table-oob",   "rope-inplace-race"};
const std::set<std::string_view> kUnpredicted{
    "divergent-collective", "wave-width", "race-missing-sync", "fastmath-nan-guard", "uninit-read"};

HostBackend& planted_backend() {
  static HostBackend backend({.wave_width = 32, .threads = 1}, planted_kernels());
  return backend;
}

const Outputs& expected_outputs(std::size_t index) {
  static std::map<std::size_t, Outputs> cache;
  const auto [place, added] = cache.try_emplace(index);
  if (added) place->second = reference::run_insertion(named_calls()[index].make(), {}, 1);
  return place->second;
}

// Rows and slots without a row that differ, by the element-wise comparison.
struct Differing {
  std::set<std::int64_t> tokens;
  std::set<std::int64_t> stray_slots;
};

std::int64_t coordinate(const compare::Coordinates& where, std::string_view name) {
  for (const auto& [key, value] : where) {
    if (key == name) return value;
  }
  return -1;
}

Differing differing(const LayerCall& call, const Outputs& expected, const Outputs& got,
                    const compare::Diagnosis& diagnosis) {
  compare::CompareOptions options;
  options.elements = {.threads = 1, .kept_differences = 1U << 20};
  Differing result;
  for (const compare::Comparison& comparison :
       compare::compare_outputs(call, expected, "reference", got, "planted", options)) {
    if (comparison.output != diagnosis.output) continue;
    for (const compare::ElementDifference& one : comparison.total.first) {
      const std::int64_t plane = coordinate(one.where, "plane");
      if (plane >= 0 && (plane == 1) != (diagnosis.tensor == "v")) continue;
      const std::int64_t token = coordinate(one.where, "token");
      if (token >= 0) result.tokens.insert(token);
      if (token < 0) result.stray_slots.insert(coordinate(one.where, "slot"));
    }
  }
  return result;
}

// Where a class happens, by its section.
std::string stage_of(std::string_view id, const std::string& tensor) {
  const std::string storing = tensor == "k" || tensor == "v" ? "reshape_and_cache"
                              : tensor == "index_k"          ? "index_cache_insert"
                                                             : "qk_norm_rope";
  if (id.starts_with("slot-") || id.starts_with("block-table") || id == "index-slot-map-swapped") {
    return "slot_mapping";
  }
  const bool before = id.starts_with("norm-") || id.starts_with("rope-") ||
                      id == "index-k-unnormed" || id == "qkv-row-pitch-without-index";
  return before && tensor != "v" ? "qk_norm_rope" : storing;
}

bool is_named(const compare::Diagnosis& diagnosis, std::string_view id) {
  if (diagnosis.id() == id) return true;
  for (const compare::Explanation& tie : diagnosis.ties) {
    if (tie.id == id) return true;
  }
  return false;
}

struct Row {
  int calls = 0;
  int tensors = 0;
  int named = 0;
  int placed = 0;
  std::vector<std::string> misnamed;
};

void judge(const PlantedBugInfo& bug, std::size_t index, Row& row) {
  const LayerCall call = named_calls()[index].make();
  PathOptions options;
  options.wanted_work_groups = 1;
  const PlantGuard guard(bug.bug, call);
  const PathRun run = run_path(call, PathKind::fused, planted_backend(), options);
  if (!run.report.ok()) return;
  const Outputs& expected = expected_outputs(index);
  const bool differs = !first_difference(call, expected, run.outputs).empty();
  const auto diagnoses = compare::diagnose_insertion(call, expected, run.outputs, "planted",
                                                     {.choices = {}, .threads = 1});
  EXPECT_EQ(differs, !diagnoses.empty()) << bug.name << " " << named_calls()[index].name;
  row.calls += differs ? 1 : 0;
  for (const compare::Diagnosis& diagnosis : diagnoses) {
    ++row.tensors;
    const bool named = is_named(diagnosis, bug.id);
    row.named += named ? 1 : 0;
    if (!named) row.misnamed.push_back(named_calls()[index].name + ": " + describe(diagnosis));
    const Differing real = differing(call, expected, run.outputs, diagnosis);
    const bool rows =
        std::set(diagnosis.tokens.begin(), diagnosis.tokens.end()) == real.tokens &&
        std::set(diagnosis.stray_slots.begin(), diagnosis.stray_slots.end()) == real.stray_slots;
    EXPECT_TRUE(rows) << bug.name << " " << named_calls()[index].name << " " << diagnosis.tensor;
    // A tie may lie in another stage with the very same bits.
    const bool stage =
        diagnosis.id() != bug.id || diagnosis.stage == stage_of(bug.id, diagnosis.tensor);
    EXPECT_TRUE(stage) << bug.name << " " << describe(diagnosis);
    row.placed += rows && stage ? 1 : 0;
  }
}

TEST(PlantedDiagnosis, NamesAndPlacesWhatOneCallShows) {
  int tensors = 0;
  int named = 0;
  std::cout << "class                            calls tensors named placed\n";
  for (const PlantedBugInfo& bug : planted_bugs()) {
    if (kElsewhere.contains(bug.id) || kUnpredicted.contains(bug.id)) continue;
    Row row;
    for (std::size_t index = 0; index < named_calls().size(); ++index) judge(bug, index, row);
    std::printf("%-32s %5d %7d %5d %6d\n", std::string(bug.id).c_str(), row.calls, row.tensors,
                row.named, row.placed);
    for (const std::string& line : row.misnamed) std::cout << "    " << line << "\n";
    EXPECT_GT(row.calls, 0) << bug.name;
    EXPECT_GT(row.named, 0) << bug.name;
    tensors += row.tensors;
    named += row.named;
  }
  std::cout << named << " of " << tensors << " tensors named\n";
  EXPECT_GE(static_cast<double>(named), 0.95 * tensors);
}

}  // namespace
}  // namespace zerodiff::device
