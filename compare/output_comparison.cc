#include "compare/output_comparison.h"

#include <cassert>
#include <optional>
#include <string_view>
#include <utility>

#include "compare/coordinates.h"
#include "compare/topk_difference.h"
#include "compare/written_elements.h"
#include "reference/index_score.h"

namespace zerodiff::compare {
namespace {

constexpr std::size_t kWritten = 0;
constexpr std::size_t kUntouched = 1;
constexpr std::size_t kScheduled = 0;
constexpr std::size_t kPadding = 1;

class OutputComparer {
 public:
  OutputComparer(const LayerCall& call, const Outputs& expected, std::string expected_name,
                 const Outputs& got, std::string path, const CompareOptions& options)
      : call_(call),
        expected_(expected),
        expected_name_(std::move(expected_name)),
        got_(got),
        path_(std::move(path)),
        options_(options),
        written_(written_slots(call)),
        rows_(row_facts(call)),
        coordinates_(call, written_, rows_) {}

  // nullopt if there is nothing to say about this output.
  std::optional<Comparison> compare(const OutputField& field) const {
    const Tensor& got = got_.*field.tensor;
    if (call_.config.skip_index_branch) {
      if (field.name == "index_q") return ignored_index_q(got);
      if (field.name == "index_cache") return unchanged_index_cache(got);
    }
    const Tensor& expected = expected_.*field.tensor;
    if (!expected.present() && !got.present()) return std::nullopt;
    if (!expected.present()) {
      return absent(field.name, "not judged: " + expected_name_ + " does not produce it", false);
    }
    if (!got.present()) {
      return absent(field.name, path_ + " does not have it", options_.demand_complete);
    }
    return judged(field.name, expected, expected_name_, got);
  }

 private:
  Comparison started(std::string_view output, std::string against) const {
    Comparison comparison;
    comparison.output = output;
    comparison.path = path_;
    comparison.against = std::move(against);
    comparison.scope = options_.scope;
    comparison.gates = options_.gates;
    return comparison;
  }

  Comparison absent(std::string_view output, std::string note, bool may_gate) const {
    Comparison comparison = started(output, expected_name_);
    comparison.gates = options_.gates && may_gate;
    comparison.note = std::move(note);
    return comparison;
  }

  std::optional<Comparison> ignored_index_q(const Tensor& got) const {
    if (!got.present()) return std::nullopt;
    return absent("index_q", "ignored: the call skips the index branch", false);
  }

  std::optional<Comparison> unchanged_index_cache(const Tensor& got) const {
    if (!got.present()) return std::nullopt;
    if (!call_.index_cache.present()) {
      return absent("index_cache",
                    "not judged: the call skips the index branch and has no index cache", false);
    }
    Comparison comparison = judged("index_cache", call_.index_cache, "call input", got);
    comparison.note = "the call skips the index branch: it must be unchanged";
    return comparison;
  }

  Comparison judged(std::string_view output, const Tensor& expected, std::string against,
                    const Tensor& got) const {
    assert(expected.type() == got.type() && expected.shape() == got.shape());
    Comparison comparison = started(output, std::move(against));
    const std::optional<CacheRegions> cache = cache_regions(output);
    ElementMap map = cache ? cache_map(*cache, expected) : plain_map(output, expected);
    map.where = [&](std::int64_t flat) { return coordinates_.at(output, expected.shape(), flat); };
    comparison.regions = compare_elements(expected, got, map, options_.elements);
    comparison.total = total_of(comparison.regions, options_.elements);
    comparison.verdict = comparison.total.mismatches == 0 ? Verdict::identical : Verdict::different;
    if (output == "topk_index" && comparison.verdict == Verdict::different) {
      comparison.topk = topk_difference(call_, expected, got, scores());
    }
    return comparison;
  }

  // What `expected` selected from, or an absent tensor.
  Tensor scores() const {
    if (options_.scores != nullptr) return *options_.scores;
    if (expected_.index_score.present()) return expected_.index_score;
    const bool can_score = call_.has_attention_metadata() && !call_.config.skip_index_branch &&
                           expected_.index_q.present() && expected_.index_cache.present();
    if (!can_score) return {};
    return reference::index_score(call_, expected_.index_q, expected_.index_cache,
                                  options_.elements.threads);
  }

  std::optional<CacheRegions> cache_regions(std::string_view output) const {
    if (const auto cache = cache_output(output)) return CacheRegions(call_, written_, *cache);
    return std::nullopt;
  }

  ElementMap plain_map(std::string_view output, const Tensor& tensor) const {
    ElementMap map;
    if (output != "q" && output != "index_q") {
      map.regions = {{"all", true, tensor.size()}};
      return map;
    }
    const std::int64_t scheduled = call_.config.num_tokens * tensor.dim(1);
    const std::int64_t all = tensor.size();
    map.regions = {{"scheduled", true, scheduled}, {"padding", false, all - scheduled}};
    map.class_of = [scheduled, all](std::int64_t flat) {
      return flat < scheduled ? ElementClass{kScheduled, NanRule::any_nan, scheduled - flat}
                              : ElementClass{kPadding, NanRule::any_nan, all - flat};
    };
    return map;
  }

  ElementMap cache_map(const CacheRegions& cache, const Tensor& tensor) const {
    const std::int64_t written = cache.written_elements();
    const bool v_is_copy = !is_fp8(tensor.type());
    ElementMap map;
    map.regions = {{"written", true, written}, {"untouched", true, tensor.size() - written}};
    map.class_of = [&cache, v_is_copy](std::int64_t flat) {
      const CacheElement element = cache.geometry().at(flat);
      const bool stored = cache.is_written(element);
      const bool copied = v_is_copy && element.plane == kValuePlane;
      return ElementClass{stored ? kWritten : kUntouched,
                          stored && !copied ? NanRule::any_nan : NanRule::bits,
                          cache.run(flat, element)};
    };
    return map;
  }

  const LayerCall& call_;
  const Outputs& expected_;
  std::string expected_name_;
  const Outputs& got_;
  std::string path_;
  const CompareOptions& options_;
  WrittenSlots written_;
  RowFacts rows_;
  CoordinateMap coordinates_;
};

}  // namespace

std::vector<Comparison> compare_outputs(const LayerCall& call, const Outputs& expected,
                                        const std::string& expected_name, const Outputs& got,
                                        const std::string& path, const CompareOptions& options) {
  const OutputComparer comparer(call, expected, expected_name, got, path, options);
  std::vector<Comparison> comparisons;
  for (const OutputField& field : kOutputFields) {
    if (auto comparison = comparer.compare(field)) comparisons.push_back(std::move(*comparison));
  }
  return comparisons;
}

}  // namespace zerodiff::compare
