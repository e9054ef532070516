// Specificity: kernels that vary by a row of numerics.md section 14, alone and in pairs, are legal,
// and the report names what they do; and what the contract does not allow is a fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <ostream>

#include "compare/legal_search.h"
#include "compare/output_comparison.h"
#include "fixtures/generator.h"
#include "reference/layer.h"
#include "tests/compare/insertion_variants.h"

namespace zerodiff::compare {
namespace {

using Rows = std::vector<VariantRow>;

std::string name_of_rows(const Rows& rows) {
  std::string name;
  for (const VariantRow& row : rows) name += (name.empty() ? "" : "_and_") + row.name;
  return name;
}

struct Judged {
  LayerCall call;
  std::vector<Comparison> comparisons;
};

Judged judge(const GeneratorOptions& options, const Rows& rows, bool allow) {
  Judged judged{generate_call(options), {}};
  const LayerCall& call = judged.call;
  const Outputs contract = reference::run_insertion(call, {}, 1);
  const Outputs got = variant(call, rows);
  judged.comparisons =
      compare_outputs(call, contract, "reference", got, "variant", {{.threads = 1}, true});
  judge_insertion(call, contract, got,
                  allow ? allowing(rows, call.config) : AllowedChoices(call.config),
                  judged.comparisons, 1);
  return judged;
}

// Findings about one choice over all calls.
struct Named {
  std::int64_t outputs = 0;     // in which the variant's value is the one that is named
  std::int64_t told_apart = 0;  // ... and no other one explains them
  std::int64_t equals = 0;      // in which another is named, and the variant's as good
};

// No output is anything but identical or legal, and the variant's own value of every choice is
// among those that are named.
void expect_legal(const Judged& judged, const Rows& rows, std::map<std::string, Named>& named) {
  for (const Comparison& comparison : judged.comparisons) {
    ASSERT_TRUE(is_right(comparison.verdict))
        << comparison.output << " is a " << name_of(comparison.verdict);
    if (!comparison.legal) continue;
    ASSERT_EQ(comparison.legal->heads_unexplained, 0) << comparison.output;
    ASSERT_EQ(comparison.legal->elements_explained, comparison.total.mismatches);
    for (const ChoiceFinding& choice : comparison.legal->choices) {
      const std::string truth = value_in(rows, judged.call.config, choice.id);
      std::vector<std::string> possible = choice.as_good;
      possible.push_back(choice.value);
      ASSERT_THAT(possible, testing::Contains(truth)) << comparison.output << ", " << choice.id;
      Named& row = named[choice.id];
      ++(choice.value == truth ? row.outputs : row.equals);
      if (possible.size() == 1) ++row.told_apart;
    }
    if (comparison.legal->moves_r()) ++named["r"].outputs;
  }
}

class Specificity : public testing::TestWithParam<Rows> {
 protected:
  // Calls from a seed on; prints the seed at which it fails.
  std::map<std::string, Named> run(int calls, std::uint64_t first_seed) {
    std::map<std::string, Named> named;
    for (int i = 0; i < calls; ++i) {
      const std::uint64_t seed = first_seed + static_cast<std::uint64_t>(i);
      const GeneratorOptions options = random_options(seed);
      SCOPED_TRACE("seed " + std::to_string(seed) + ": " + describe(options));
      expect_legal(judge(options, GetParam(), true), GetParam(), named);
      if (testing::Test::HasFatalFailure()) break;
    }
    return named;
  }
};

class SingleChoice : public Specificity {};

TEST_P(SingleChoice, IsLegalAndNamed) {
  const auto named = run(ZERODIFF_SINGLE_CALLS, 1'000);
  const std::string& id = GetParam().front().id;
  const bool by_head = id == "rsqrt" || id == "sumsq_order";
  ASSERT_TRUE(named.contains(by_head ? "r" : id));
  const Named& row = named.at(by_head ? "r" : id);
  EXPECT_GT(row.outputs, 0);
  // Contractions of RoPE differ in so little that a few heads with a free r seldom tell them apart.
  if (id != "rope_contraction" && !by_head) {
    EXPECT_GT(row.outputs, row.equals);
    EXPECT_GT(row.told_apart, 0);
  }
}

class ChoicePair : public Specificity {};

TEST_P(ChoicePair, IsLegalAndNamed) {
  EXPECT_FALSE(run(ZERODIFF_PAIR_CALLS, 50'000).empty());
}

std::vector<Rows> singles() {
  std::vector<Rows> all;
  for (const VariantRow& row : variant_rows()) all.push_back({row});
  return all;
}

// Two values of one choice are no pair.
std::vector<Rows> pairs() {
  std::vector<Rows> all;
  const Rows rows = variant_rows();
  for (std::size_t a = 0; a < rows.size(); ++a) {
    for (std::size_t b = a + 1; b < rows.size(); ++b) {
      if (rows[a].id != rows[b].id) all.push_back({rows[a], rows[b]});
    }
  }
  return all;
}

// The prefix says over how many calls: Over60Calls in CI, Over500Calls in the exhaustive suite.
#define INSTANTIATE_MATRIX(prefix, suite, rows)                    \
  INSTANTIATE_TEST_SUITE_P(prefix, suite, testing::ValuesIn(rows), \
                           [](const auto& row) { return name_of_rows(row.param); })
INSTANTIATE_MATRIX(ZERODIFF_SINGLE_PREFIX, SingleChoice, singles());
INSTANTIATE_MATRIX(ZERODIFF_PAIR_PREFIX, ChoicePair, pairs());

}  // namespace

void PrintTo(const VariantRow& row, std::ostream* out) {
  *out << row.name;
}

}  // namespace zerodiff::compare
