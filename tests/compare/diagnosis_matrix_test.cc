// The fault matrix: faulty results of seeded calls, each detected, named and placed. Classes that
// planted kernels show are in tests/device/planted_diagnosis_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <set>

#include "compare/diagnose.h"
#include "compare/head_contract.h"
#include "reference/layer.h"
#include "tests/compare/faulty_calls.h"
#include "tests/compare/tensor_bits.h"

namespace zerodiff::compare {
namespace {

constexpr std::uint64_t kSeeds = 6;

const Tensor& output_named(const Outputs& outputs, const std::string& name) {
  return outputs.*std::ranges::find(kOutputFields, name, &OutputField::name)->tensor;
}

// Rows that own an element of the tensor that differs, read off the contract's places.
std::set<std::int64_t> differing_rows(const LayerCall& call, const Outputs& expected,
                                      const Outputs& got, const Diagnosis& diagnosis) {
  const HeadContract contract(call);
  const Branch branch = *std::ranges::find(kBranches, diagnosis.tensor,
                                           [](Branch b) { return std::string(name_of(b)); });
  const Tensor& wanted = output_named(expected, diagnosis.output);
  const Tensor& found = output_named(got, diagnosis.output);
  std::set<std::int64_t> rows;
  for (std::int64_t token = 0; token < call.config.num_tokens; ++token) {
    for (std::int64_t head = 0; head < contract.heads(branch); ++head) {
      for (std::int64_t d = 0; d < kHeadDim; ++d) {
        const std::int64_t flat = contract.place({branch, token, head}, d);
        if (flat >= 0 && get_bits(wanted, flat) != get_bits(found, flat)) rows.insert(token);
      }
    }
  }
  return rows;
}

bool is_named(const Diagnosis& diagnosis, const std::string& id) {
  return diagnosis.id() == id ||
         std::ranges::any_of(diagnosis.ties, [&](const Explanation& tie) { return tie.id == id; });
}

struct MatrixRow {
  int detected = 0;
  int tensors = 0;
  int named = 0;
};

std::string wanted_stage(const FaultCase& fault, const Diagnosis& diagnosis) {
  if (!fault.stage.empty() && fault.id != "misplaced-rows") return fault.stage;
  return diagnosis.tensor == "index_k" ? "index_cache_insert" : "reshape_and_cache";
}

void judge(const FaultCase& fault, std::uint64_t seed, MatrixRow& row) {
  const FaultyResult faulty = fault.make(seed);
  const Outputs expected = reference::run_insertion(faulty.call, {}, 1);
  const auto diagnoses = diagnose_insertion(faulty.call, expected, faulty.outputs, "faulty",
                                            {.choices = {}, .threads = 1});
  row.detected += diagnoses.empty() ? 0 : 1;
  EXPECT_FALSE(diagnoses.empty()) << fault.name << " seed " << seed;
  for (const Diagnosis& diagnosis : diagnoses) {
    ++row.tensors;
    const bool named = is_named(diagnosis, fault.id);
    row.named += named ? 1 : 0;
    if (!named) std::cout << "    seed " << seed << ": " << describe(diagnosis) << "\n";
    EXPECT_TRUE(std::ranges::find(fault.tensors, diagnosis.tensor) != fault.tensors.end())
        << fault.name << " " << describe(diagnosis);
    const std::set<std::int64_t> rows(diagnosis.tokens.begin(), diagnosis.tokens.end());
    EXPECT_EQ(rows, differing_rows(faulty.call, expected, faulty.outputs, diagnosis)) << fault.name;
    if (diagnosis.id() == fault.id) {
      EXPECT_EQ(diagnosis.stage, wanted_stage(fault, diagnosis)) << fault.name;
    }
  }
}

TEST(FaultMatrix, EveryFaultIsDetectedNamedAndPlaced) {
  int tensors = 0;
  int named = 0;
  std::printf("%-28s %-30s %8s %7s %5s\n", "fault", "class", "detected", "tensors", "named");
  for (const FaultCase& fault : fault_cases()) {
    MatrixRow row;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) judge(fault, seed, row);
    std::printf("%-28s %-30s %4d / %d %7d %5d\n", fault.name.c_str(), fault.id.c_str(),
                row.detected, static_cast<int>(kSeeds), row.tensors, row.named);
    std::fflush(stdout);
    EXPECT_GT(row.named, 0) << fault.name;
    tensors += row.tensors;
    named += row.named;
  }
  std::cout << named << " of " << tensors << " tensors named\n";
  EXPECT_GE(named, 0.95 * tensors);
}

}  // namespace
}  // namespace zerodiff::compare
