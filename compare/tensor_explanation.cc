#include "compare/tensor_explanation.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <optional>

#include "compare/element_order.h"
#include "compare/head_arithmetic.h"
#include "reference/parallel.h"

namespace zerodiff::compare {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeastHeadsPerThread = 256;

int threads_for(std::int64_t heads, int threads) {
  return heads < 2 * kLeastHeadsPerThread ? 1 : threads;
}

// Of two moves as far the upward one: which came first must not show.
std::int64_t larger_move(std::int64_t a, std::int64_t b) {
  if (std::abs(a) != std::abs(b)) return std::abs(a) > std::abs(b) ? a : b;
  return std::max(a, b);
}

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

std::int64_t ExplainedHeads::moved() const {
  return heads - unexplained - by_ulp[LegalReport::kMostUlps];
}

void ExplainedHeads::add(std::int64_t head, std::optional<std::int32_t> move,
                         std::int64_t mismatches) {
  ++heads;
  if (!move) {
    if (unexplained++ == 0) first_unexplained = head;
    elements_unexplained += mismatches;
    return;
  }
  elements_explained += mismatches;
  if (std::abs(*move) > LegalReport::kMostUlps) {
    ++by_sum_order;
  } else {
    ++by_ulp[at(*move + LegalReport::kMostUlps)];
  }
  largest_move = larger_move(largest_move, *move);
}

void ExplainedHeads::add(const ExplainedHeads& more) {
  heads += more.heads;
  for (std::size_t i = 0; i < by_ulp.size(); ++i) by_ulp[i] += more.by_ulp[i];
  by_sum_order += more.by_sum_order;
  largest_move = larger_move(largest_move, more.largest_move);
  unexplained += more.unexplained;
  elements_explained += more.elements_explained;
  elements_unexplained += more.elements_unexplained;
  const bool earlier = first_unexplained < 0 || more.first_unexplained < first_unexplained;
  if (more.first_unexplained >= 0 && earlier) first_unexplained = more.first_unexplained;
}

TensorExplanation::TensorExplanation(const LayerCall& call, const WrittenSlots& written,
                                     HeadTensor tensor, const Outputs& contract, const Outputs& got,
                                     const FactorFreedom& freedom, int threads)
    : call_(&call),
      heads_(call, written, tensor),
      shown_(shown_choices(tensor, heads_.type())),
      contract_(&heads_.tensor_of(contract)),
      got_(&heads_.tensor_of(got)),
      freedom_(freedom),
      threads_(threads),
      mismatches_(at(heads_.count())) {
  find_suspects();
}

void TensorExplanation::find_suspects() {
  const ElementOrder order = element_order(heads_.type());
  const bool copied = heads_.tensor() == HeadTensor::v && !is_fp8(heads_.type());
  reference::parallel_for(heads_.count(), threads_for(heads_.count(), threads_),
                          [&](std::int64_t begin, std::int64_t end) {
                            HeadBits expected;
                            HeadBits got;
                            for (std::int64_t i = begin; i < end; ++i) {
                              heads_.read(*contract_, i, expected);
                              heads_.read(*got_, i, got);
                              if (expected == got) continue;
                              for (std::size_t d = 0; d < got.size(); ++d) {
                                const bool nans =
                                    !copied && order.is_nan(expected[d]) && order.is_nan(got[d]);
                                if (expected[d] != got[d] && !nans) ++mismatches_[at(i)];
                              }
                            }
                          });
  for (std::int64_t i = 0; i < heads_.count(); ++i) {
    if (mismatches_[at(i)] > 0) suspects_.push_back(i);
  }
}

BuildKey TensorExplanation::visible_part(BuildKey key) const {
  for (std::size_t i = 0; i < key.size(); ++i) {
    if (!shown_[i]) key[i] = 0;
  }
  return key;
}

const ExplainedHeads& TensorExplanation::under(const BuildKey& key, const BuildChoices& choices) {
  const BuildKey visible = visible_part(key);
  const auto found = known_.find(visible);
  if (found != known_.end()) return found->second;
  const reference::Choices chosen = choices.choices(visible);
  if (visible == BuildKey{}) {
    const ExplainedHeads& heads = known_[visible] = explain(chosen, true, kNoLimit);
    if (heads.unexplained > 0) sample_ = unexplained_sample(chosen);
    return heads;
  }
  const std::int64_t limit = under(BuildKey{}, choices).unexplained;
  const bool hopeless = limit > 0 && !explains_some_of(sample_, chosen);
  return known_[visible] = hopeless ? cut_short_at(limit + 1) : explain(chosen, false, limit);
}

// Up to 32 heads, spread over all suspects: choices that explain everything explain these, too.
std::vector<std::int64_t> TensorExplanation::unexplained_sample(
    const reference::Choices& contract) const {
  constexpr std::size_t kSample = 32;
  HeadArithmetic arithmetic(*call_, heads_, contract, freedom_);
  std::vector<std::int64_t> sample;
  HeadBits got;
  const std::size_t stride = std::max<std::size_t>(1, suspects_.size() / kSample);
  for (std::size_t start = 0; start < stride && sample.empty(); ++start) {
    for (std::size_t n = start; n < suspects_.size(); n += stride) {
      heads_.read(*got_, suspects_[n], got);
      if (!arithmetic.explain(suspects_[n], got)) sample.push_back(suspects_[n]);
    }
  }
  return sample;
}

bool TensorExplanation::explains_some_of(const std::vector<std::int64_t>& sample,
                                         const reference::Choices& choices) const {
  HeadArithmetic arithmetic(*call_, heads_, choices, freedom_);
  HeadBits got;
  return std::ranges::any_of(sample, [&](std::int64_t i) {
    heads_.read(*got_, i, got);
    return arithmetic.explain(i, got).has_value();
  });
}

ExplainedHeads TensorExplanation::cut_short_at(std::int64_t unexplained) const {
  ExplainedHeads cut;
  cut.heads = heads_.count();
  cut.unexplained = unexplained;
  cut.cut_short = true;
  return cut;
}

const ExplainedHeads& TensorExplanation::fully_under(const BuildKey& key,
                                                     const BuildChoices& choices) {
  const BuildKey visible = visible_part(key);
  const ExplainedHeads& known = under(visible, choices);
  if (!known.cut_short) return known;
  return known_[visible] = explain(choices.choices(visible), false, kNoLimit);
}

// With `suspects_only` the other heads count as explained: the choices are the contract's.
ExplainedHeads TensorExplanation::explain(const reference::Choices& choices, bool suspects_only,
                                          std::int64_t most_unexplained) const {
  const auto suspects = static_cast<std::int64_t>(suspects_.size());
  const std::int64_t count = suspects_only ? suspects : heads_.count();
  ExplainedHeads total;
  if (suspects_only) {
    total.heads = heads_.count() - suspects;
    total.by_ulp[LegalReport::kMostUlps] = total.heads;
  }
  std::mutex merging;
  std::atomic<std::int64_t> unexplained{0};
  reference::parallel_for(
      count, threads_for(count, threads_), [&](std::int64_t begin, std::int64_t end) {
        HeadArithmetic arithmetic(*call_, heads_, choices, freedom_);
        ExplainedHeads part;
        HeadBits got;
        for (std::int64_t n = begin; n < end && unexplained <= most_unexplained; ++n) {
          const std::int64_t i = suspects_only ? suspects_[at(n)] : n;
          heads_.read(*got_, i, got);
          const std::optional<std::int32_t> move = arithmetic.explain(i, got);
          part.add(i, move, mismatches_[at(i)]);
          if (!move) ++unexplained;
        }
        const std::lock_guard lock(merging);
        total.add(part);
      });
  if (total.unexplained <= most_unexplained) return total;
  return cut_short_at(most_unexplained + 1);  // how far the threads came must not show
}

}  // namespace zerodiff::compare
