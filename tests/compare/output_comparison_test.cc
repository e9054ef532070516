// All outputs of a path: planted differences land in the right output, region and coordinates.
#include "compare/output_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "compare/written_elements.h"
#include "fixtures/layer_call_checks.h"
#include "reference/layer.h"
#include "tests/compare/small_call.h"
#include "tests/compare/tensor_bits.h"

namespace zerodiff::compare {
namespace {

// A call and what the reference makes of it.
class Judged {
 public:
  explicit Judged(const GeneratorOptions& options)
      : call(generate_call(options)), expected(reference::run_layer(call)), got(expected) {}

  std::vector<Comparison> compare_every(const CompareOptions& options = {}) const {
    check_outputs(call, got, "/outputs/path");
    return compare_outputs(call, expected, "reference", got, "path", options);
  }

  // The comparison of one output. Fails the test if there is none.
  Comparison compare(const std::string& output, const CompareOptions& options = {}) const {
    for (const Comparison& comparison : compare_every(options)) {
      if (comparison.output == output) return comparison;
    }
    ADD_FAILURE() << "no comparison of " << output;
    return {};
  }

  LayerCall call;
  Outputs expected;
  Outputs got;
};

const Region& region(const Comparison& comparison, const std::string& name) {
  for (const Region& candidate : comparison.regions) {
    if (candidate.name == name) return candidate;
  }
  ADD_FAILURE() << "no region " << name << " in " << comparison.output;
  static const Region kNone;
  return kNone;
}

void flip_lowest_bit(Tensor& tensor, std::int64_t index) {
  set_bits(tensor, index, get_bits(tensor, index) ^ 1);
}

class Kinds : public testing::TestWithParam<std::size_t> {
 protected:
  Judged judged_{cache_kinds().at(GetParam()).options};
};

TEST_P(Kinds, EveryOutputOfTheReferenceIsIdenticalToItself) {
  std::size_t present = 0;
  for (const OutputField& field : kOutputFields) {
    present += (judged_.expected.*field.tensor).present() ? 1 : 0;
  }
  const std::vector<Comparison> comparisons =
      judged_.compare_every({.elements = {}, .gates = true});
  ASSERT_EQ(comparisons.size(), present);
  for (const Comparison& comparison : comparisons) {
    EXPECT_EQ(comparison.verdict, Verdict::identical) << comparison.output;
    EXPECT_EQ(comparison.path, "path");
    EXPECT_EQ(comparison.against, "reference");
    EXPECT_EQ(comparison.scope, Scope::end_to_end);
    EXPECT_TRUE(comparison.gates);
    EXPECT_GT(comparison.total.elements, 0) << comparison.output;
    EXPECT_EQ(comparison.total.mismatches, 0) << comparison.output;
    EXPECT_EQ(comparison.total.max_abs_error, 0) << comparison.output;
  }
}

// One element of every output at a time, the first, one in the middle and the last.
TEST_P(Kinds, OneChangedElementIsFoundAndNothingElse) {
  for (const OutputField& field : kOutputFields) {
    Tensor& tensor = judged_.got.*field.tensor;
    if (!tensor.present()) continue;
    for (const std::int64_t at : {std::int64_t{0}, tensor.size() / 2, tensor.size() - 1}) {
      flip_lowest_bit(tensor, at);
      const bool padding = (field.name == "q" || field.name == "index_q") &&
                           at >= judged_.call.config.num_tokens * tensor.dim(1);
      for (const Comparison& comparison : judged_.compare_every()) {
        const bool here = comparison.output == field.name;
        ASSERT_EQ(comparison.verdict, here && !padding ? Verdict::different : Verdict::identical)
            << comparison.output << " with a change in " << field.name << " " << at;
        if (!here || padding) continue;
        ASSERT_EQ(comparison.total.first.size(), 1U);
        EXPECT_EQ(comparison.total.first[0].flat_index, at);
        EXPECT_GE(coordinate_names(comparison.total.first[0].where).size(), 4U);
      }
      flip_lowest_bit(tensor, at);
    }
  }
}

TEST_P(Kinds, RegionsOfACacheAddUpAndHoldTheirOwn) {
  const WrittenSlots written = written_slots(judged_.call);
  for (const OutputField& field : kOutputFields) {
    const auto output = cache_output(field.name);
    Tensor& tensor = judged_.got.*field.tensor;
    if (!output || !tensor.present()) continue;
    const CacheRegions regions(judged_.call, written, *output);
    std::int64_t planted[2] = {0, 0};
    for (std::int64_t flat = 0; flat < tensor.size(); flat += 37) {
      flip_lowest_bit(tensor, flat);
      ++planted[regions.is_written(regions.geometry().at(flat)) ? 0 : 1];
    }
    const Comparison comparison = judged_.compare(std::string(field.name));
    EXPECT_EQ(region(comparison, "written").tally.elements, regions.written_elements());
    EXPECT_EQ(region(comparison, "written").tally.mismatches, planted[0]) << field.name;
    EXPECT_EQ(region(comparison, "untouched").tally.mismatches, planted[1]) << field.name;
    EXPECT_GT(planted[0], 0) << field.name;
    EXPECT_EQ(comparison.total.elements, tensor.size());
    EXPECT_EQ(comparison.total.mismatches, planted[0] + planted[1]);
  }
}

INSTANTIATE_TEST_SUITE_P(Storages, Kinds, testing::Range<std::size_t>(0, 4),
                         [](const auto& kind) { return name_of_kind(kind.param); });

TEST(CompareOutputs, PaddingRowsAreShownButDoNotCount) {
  Judged judged(small_options());
  Tensor& q = judged.got.q;
  const std::int64_t first_padding = judged.call.config.num_tokens * q.dim(1);
  flip_lowest_bit(q, first_padding + 200);
  const Comparison padded = judged.compare("q");
  EXPECT_EQ(padded.verdict, Verdict::identical);
  EXPECT_EQ(padded.total.elements, first_padding);
  EXPECT_FALSE(region(padded, "padding").counts);
  ASSERT_EQ(region(padded, "padding").tally.mismatches, 1);
  const Coordinates& where = region(padded, "padding").tally.first[0].where;
  EXPECT_EQ(coordinate(where, "token"), judged.call.config.num_tokens);
  EXPECT_EQ(coordinate(where, "head"), 1);
  EXPECT_EQ(coordinate(where, "dim"), 72);

  flip_lowest_bit(q, first_padding - 1);
  const Comparison scheduled = judged.compare("q");
  EXPECT_EQ(scheduled.verdict, Verdict::different);
  EXPECT_EQ(scheduled.total.mismatches, 1);
  EXPECT_EQ(region(scheduled, "scheduled").tally.mismatches, 1);
}

// The slot and dims of the first row that stores, and those of a slot that nobody writes.
struct Planted {
  std::int64_t written;
  std::int64_t untouched;
};
Planted places(const LayerCall& call, CacheOutput output, std::int64_t plane) {
  const WrittenSlots written = written_slots(call);
  const CacheRegions regions(call, written, output);
  CacheElement element;
  element.plane = plane;
  element.dim = 5;
  element.slot = output == CacheOutput::index_cache
                     ? written.index_slot_of_row[static_cast<std::size_t>(stored_rows(call)[0])]
                     : written.kv_slot_of_row[static_cast<std::size_t>(stored_rows(call)[0])];
  Planted planted{regions.geometry().flat_index(element), 0};
  element.slot = 0;
  while (regions.is_written(element)) ++element.slot;
  planted.untouched = regions.geometry().flat_index(element);
  return planted;
}

struct NanCase {
  std::string name;
  std::size_t kind;
  std::string output;
  std::int64_t plane;
  std::uint64_t nan;
  std::uint64_t other_nan;
  bool written_nans_are_equal;
};

void PrintTo(const NanCase& c, std::ostream* out) {
  *out << c.name;
}

class NanRules : public testing::TestWithParam<NanCase> {};

TEST_P(NanRules, ComputedNansAreEqualCopiesAndUntouchedBytesAreNot) {
  const NanCase& c = GetParam();
  Judged judged(cache_kinds().at(c.kind).options);
  Tensor Outputs::*member = nullptr;
  for (const OutputField& field : kOutputFields) {
    if (field.name == c.output) member = field.tensor;
  }
  ASSERT_NE(member, nullptr);
  const Planted planted = places(judged.call, *cache_output(c.output), c.plane);
  for (const std::int64_t at : {planted.written, planted.untouched}) {
    set_bits(judged.expected.*member, at, c.nan);
    set_bits(judged.got.*member, at, c.other_nan);
  }
  const Comparison comparison = judged.compare(c.output);
  EXPECT_EQ(region(comparison, "written").tally.mismatches, c.written_nans_are_equal ? 0 : 1);
  EXPECT_EQ(region(comparison, "untouched").tally.mismatches, 1);
  EXPECT_EQ(comparison.verdict, Verdict::different);
}

INSTANTIATE_TEST_SUITE_P(
    Caches, NanRules,
    testing::Values(NanCase{"K", 0, "k_cache", 0, 0x7FC0, 0xFFC1, true},
                    NanCase{"VIsACopy", 0, "v_cache", 1, 0x7FC0, 0xFFC1, false},
                    NanCase{"IndexK", 0, "index_cache", 0, 0x7FC0, 0xFFC1, true},
                    NanCase{"KFp8", 1, "k_cache", 0, 0x7F, 0xFF, true},
                    NanCase{"VFp8IsComputed", 1, "v_cache", 1, 0x7F, 0xFF, true},
                    NanCase{"IndexKFp8", 1, "index_cache", 0, 0x7F, 0xFF, true},
                    NanCase{"JoinedK", 2, "kv_cache", 0, 0x7FC0, 0xFFC1, true},
                    NanCase{"JoinedVIsACopy", 2, "kv_cache", 1, 0x7FC0, 0xFFC1, false},
                    NanCase{"JoinedVFp8", 3, "kv_cache", 1, 0x7F, 0xFF, true}),
    [](const auto& c) { return c.param.name; });

TEST(CompareOutputs, QuantitiesOtherThanCachesTakeAnyNan) {
  Judged judged(small_options());
  for (Tensor Outputs::*member : {&Outputs::q, &Outputs::index_q, &Outputs::attn_output}) {
    set_bits(judged.expected.*member, 3, 0x7FC0);
    set_bits(judged.got.*member, 3, 0xFFC1);
  }
  for (const Comparison& comparison : judged.compare_every()) {
    EXPECT_EQ(comparison.verdict, Verdict::identical) << comparison.output;
  }
}

TEST(CompareOutputs, MissingOutputsAreAbsentWithANote) {
  Judged judged(small_options());
  judged.got.k_cache = Tensor();
  judged.expected.attn_output = Tensor();
  judged.expected.topk_index = Tensor();
  judged.got.topk_index = Tensor();
  const CompareOptions gates{.elements = {}, .gates = true};
  const CompareOptions complete{.elements = {}, .gates = true, .demand_complete = true};

  const Comparison k = judged.compare("k_cache", gates);
  EXPECT_EQ(k.verdict, Verdict::absent);
  EXPECT_EQ(k.note, "path does not have it");
  EXPECT_FALSE(k.gates);
  EXPECT_TRUE(judged.compare("k_cache", complete).gates);
  EXPECT_FALSE(judged.compare("k_cache").gates);

  const Comparison attention = judged.compare("attn_output", complete);
  EXPECT_EQ(attention.verdict, Verdict::absent);
  EXPECT_EQ(attention.note, "not judged: reference does not produce it");
  EXPECT_FALSE(attention.gates);
  EXPECT_TRUE(attention.regions.empty());
  for (const Comparison& comparison : judged.compare_every())
    EXPECT_NE(comparison.output, "topk_index");
}

class SkippedIndexBranch : public testing::Test {
 protected:
  static GeneratorOptions options() {
    GeneratorOptions result = small_options(3);
    result.config.skip_index_branch = true;
    return result;
  }
  // The generator leaves the index tensors out half the time.
  void SetUp() override {
    judged_.call.index_cache = Tensor::zeros(judged_.call.index_cache_type(),
                                             {judged_.call.num_blocks(), kBlockSize, kHeadDim});
    judged_.got.index_cache = judged_.call.index_cache;
  }
  Judged judged_{options()};
};

TEST_F(SkippedIndexBranch, HoldsTheIndexCacheAgainstTheCallsOwn) {
  const Comparison same = judged_.compare("index_cache");
  EXPECT_EQ(same.verdict, Verdict::identical);
  EXPECT_EQ(same.against, "call input");
  EXPECT_FALSE(same.note.empty());
  EXPECT_EQ(region(same, "written").tally.elements, 0);
  EXPECT_EQ(region(same, "untouched").tally.elements, judged_.got.index_cache.size());

  set_bits(judged_.got.index_cache, 700, 0x3F80);
  const Comparison changed = judged_.compare("index_cache");
  EXPECT_EQ(changed.verdict, Verdict::different);
  ASSERT_EQ(region(changed, "untouched").tally.mismatches, 1);
  EXPECT_EQ(coordinate(changed.total.first[0].where, "slot"), 5);
  EXPECT_EQ(coordinate(changed.total.first[0].where, "token"), -1);
}

TEST_F(SkippedIndexBranch, IgnoresIndexQAndAMissingIndexCache) {
  judged_.got.index_q = Tensor::zeros(ElementType::bfloat16, {judged_.call.capacity(), 256});
  judged_.got.index_cache = Tensor();
  const std::vector<Comparison> comparisons =
      compare_outputs(judged_.call, judged_.expected, "reference", judged_.got, "path",
                      {.elements = {}, .gates = true, .demand_complete = true});
  for (const Comparison& comparison : comparisons) {
    EXPECT_NE(comparison.output, "index_cache");
    if (comparison.output != "index_q") continue;
    EXPECT_EQ(comparison.verdict, Verdict::absent);
    EXPECT_FALSE(comparison.gates);
    EXPECT_EQ(comparison.note, "ignored: the call skips the index branch");
  }
}

TEST_F(SkippedIndexBranch, DoesNotJudgeAnIndexCacheThatTheCallLacks) {
  judged_.call.index_cache = Tensor();
  const std::vector<Comparison> comparisons =
      compare_outputs(judged_.call, judged_.expected, "reference", judged_.got, "path",
                      {.elements = {}, .gates = true, .demand_complete = true});
  bool found = false;
  for (const Comparison& comparison : comparisons) {
    if (comparison.output != "index_cache") continue;
    found = true;
    EXPECT_EQ(comparison.verdict, Verdict::absent);
    EXPECT_FALSE(comparison.gates);
  }
  EXPECT_TRUE(found);
}

TEST(CompareOutputs, RandomCallsEqualThemselvesAndShowAPlantedByte) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const GeneratorOptions options = random_options(seed);
    const LayerCall call = generate_call(options);
    const Outputs expected = reference::run_insertion(call, {}, 1);
    for (const OutputField& field : kOutputFields) {
      if (!(expected.*field.tensor).present() || (expected.*field.tensor).size() == 0) continue;
      Outputs got = expected;
      Tensor& tensor = got.*field.tensor;
      const auto at =
          static_cast<std::int64_t>((seed * 7919 + 11) % static_cast<std::uint64_t>(tensor.size()));
      set_bits(tensor, at, get_bits(tensor, at) ^ (std::uint64_t{1} << 3));
      std::int64_t mismatches = 0;
      for (const Comparison& comparison : compare_outputs(call, expected, "a", got, "b")) {
        for (const Region& part : comparison.regions) mismatches += part.tally.mismatches;
      }
      const bool both_nan =
          compare_all(expected.*field.tensor, tensor, NanRule::any_nan).mismatches == 0;
      ASSERT_TRUE(mismatches == 1 || (both_nan && mismatches == 0))
          << field.name << " " << at << " of " << describe(options);
    }
  }
}

}  // namespace
}  // namespace zerodiff::compare
