#include "compare/hypothesis_search.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "reference/parallel.h"

namespace zerodiff::compare {
namespace {

// Heads that every hypothesis is tried on.
constexpr std::size_t kSampleHeads = 96;
// A hypothesis is tried on everything if it explains this share of the sample, and few more do.
constexpr double kPromisingShare = 0.5;
constexpr std::size_t kConfirmed = 8;
// Moved heads may overwrite each other, so a small share of them is a sign already. Elements agree
// by chance in about one of a hundred.
constexpr double kPromisingMoveShare = 0.04;

std::size_t index_of(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

Score operator+(const Score& a, const Score& b) {
  return {a.explained + b.explained, a.of + b.of, a.contradicted + b.contradicted};
}

Score score_head(const HeadContract& contract, const JudgedTensor& tensor,
                 const Hypothesis& hypothesis, const HeadAt& at) {
  const StoredBits expected(*tensor.expected);
  const StoredBits got(*tensor.got);
  const HeadCodes bits = evaluate_head(contract, &hypothesis, at).bits;
  Score score;
  for (std::int64_t d = 0; d < kHeadDim; ++d) {
    const std::int64_t flat = contract.place(at, d);
    const std::uint32_t found = got.at(flat);
    const std::uint32_t predicted = bits[index_of(d)];
    const bool hit = predicted == kAnyBits || tensor.same(predicted, found);
    if (tensor.same(expected.at(flat), found)) {
      score.contradicted += hit ? 0 : 1;
    } else {
      ++score.of;
      score.explained += hit ? 1 : 0;
    }
  }
  return score;
}

constexpr std::uint8_t kTouched = 1;
constexpr std::uint8_t kHit = 2;

// Where a hypothesis stores something, and whether it is what was found there.
class MovedStores {
 public:
  MovedStores(const HeadContract& contract, const JudgedTensor& tensor,
              const Hypothesis& hypothesis)
      : contract_(contract),
        tensor_(tensor),
        hypothesis_(hypothesis),
        got_(*tensor.got),
        marks_(index_of(tensor.expected->size()), 0) {}

  void run(int threads) {
    reference::parallel_for(contract_.call().capacity(), threads,
                            [&](std::int64_t begin, std::int64_t end) {
                              for (std::int64_t token = begin; token < end; ++token) store(token);
                            });
  }

  Score score(const MismatchSet& set) const {
    const StoredBits before(*tensor_.before);
    Score score;
    for (std::int64_t flat = 0; flat < tensor_.expected->size(); ++flat) {
      const std::uint8_t kind = set.kinds[index_of(flat)];
      const std::uint8_t mark = marks_[index_of(flat)];
      if (kind == 0 && mark == 0) continue;
      const bool touched = (mark & kTouched) != 0;
      const bool hit = touched ? (mark & kHit) != 0 : before.at(flat) == got_.at(flat);
      if ((kind & kMismatching) != 0) {
        ++score.of;
        score.explained += hit ? 1 : 0;
      } else if ((kind & kAffected) != 0 || ((kind & kOwned) == 0 && touched)) {
        score.contradicted += hit ? 0 : 1;
      }
    }
    return score;
  }

 private:
  // Both branches of a joined pool store into it.
  std::vector<Branch> branches() const {
    if (tensor_.output == "kv_cache") return {Branch::k, Branch::v};
    return {tensor_.branch};
  }

  void store(std::int64_t token) {
    for (const Branch branch : branches()) {
      for (std::int64_t head = 0; head < contract_.heads(branch); ++head) {
        store_head({branch, token, head});
      }
    }
  }

  void store_head(const HeadAt& at) {
    if (place_of(contract_, hypothesis_, at, 0) < 0 &&
        place_of(contract_, hypothesis_, at, kHeadDim - 1) < 0) {
      return;
    }
    const HeadCodes bits = evaluate_head(contract_, &hypothesis_, at).bits;
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      const std::int64_t flat = place_of(contract_, hypothesis_, at, d);
      if (flat < 0) continue;
      const bool hit = tensor_.same(bits[index_of(d)], got_.at(flat));
      std::atomic_ref<std::uint8_t>(marks_[index_of(flat)])
          .fetch_or(static_cast<std::uint8_t>(kTouched | (hit ? kHit : 0)),
                    std::memory_order_relaxed);
    }
  }

  const HeadContract& contract_;
  const JudgedTensor& tensor_;
  const Hypothesis& hypothesis_;
  StoredBits got_;
  std::vector<std::uint8_t> marks_;
};

// Share of the elements of a moved head that are found where the hypothesis puts them (or that
// still have their old value where it puts them nowhere); -1 if the head is not moved.
double moved_share(const HeadContract& contract, const JudgedTensor& tensor,
                   const Hypothesis& hypothesis, const HeadAt& at) {
  const StoredBits got(*tensor.got);
  const StoredBits before(*tensor.before);
  const HeadCodes bits = evaluate_head(contract, &hypothesis, at).bits;
  int moved = 0;
  int found = 0;
  for (std::int64_t d = 0; d < kHeadDim; ++d) {
    const std::int64_t flat = place_of(contract, hypothesis, at, d);
    const std::int64_t own = contract.place(at, d);
    if (flat == own) continue;
    ++moved;
    const bool hit =
        flat < 0 ? before.at(own) == got.at(own) : tensor.same(bits[index_of(d)], got.at(flat));
    found += hit ? 1 : 0;
  }
  return moved == 0 ? -1 : static_cast<double>(found) / moved;
}

// Heads that a moving hypothesis is tried on: affected ones, and rows that store nothing.
std::vector<HeadAt> move_sample(const HeadContract& contract, const JudgedTensor& tensor,
                                const MismatchSet& set) {
  std::vector<HeadAt> sample;
  for (const AffectedHead& head : sample_heads(set.heads, kSampleHeads / 2)) {
    sample.push_back(head.at);
  }
  std::int64_t idle = 0;
  for (std::int64_t token = 0; token < contract.call().capacity(); ++token) {
    const HeadAt at{tensor.branch, token, 0};
    if (contract.place(at, 0) >= 0) continue;
    sample.push_back(at);
    if (++idle == static_cast<std::int64_t>(kSampleHeads / 2)) break;
  }
  if (tensor.output != "kv_cache") return sample;
  const std::size_t own = sample.size();
  for (std::size_t i = 0; i < own; ++i) {
    sample.push_back(sample[i]);
    sample.back().branch = sample[i].branch == Branch::k ? Branch::v : Branch::k;
  }
  return sample;
}

double promise_of_move(const HeadContract& contract, const JudgedTensor& tensor,
                       const Hypothesis& hypothesis, const std::vector<HeadAt>& sample) {
  double sum = 0;
  int moved = 0;
  for (const HeadAt& at : sample) {
    if (!hypothesis.changes(at.branch)) continue;
    const double share = moved_share(contract, tensor, hypothesis, at);
    if (share < 0) continue;
    sum += share;
    ++moved;
  }
  return moved == 0 ? 0 : sum / moved;
}

bool better(const RankedHypothesis& a, const RankedHypothesis& b) {
  const bool a_explains = a.score.coverage() >= kExplainedShare;
  const bool b_explains = b.score.coverage() >= kExplainedShare;
  if (a_explains != b_explains) return a_explains;
  if (!a_explains) return a.score.explained > b.score.explained;
  return a.score.explained - a.score.contradicted > b.score.explained - b.score.contradicted;
}

class Ranking {
 public:
  Ranking(const HeadContract& contract, const JudgedTensor& tensor, const MismatchSet& set,
          int threads)
      : contract_(contract),
        tensor_(tensor),
        set_(set),
        threads_(threads),
        sample_(sample_heads(set.heads, kSampleHeads)) {
    if (tensor.before != nullptr) move_sample_ = move_sample(contract, tensor, set);
  }

  std::vector<RankedHypothesis> run(std::vector<Hypothesis> candidates) {
    std::vector<RankedHypothesis> values;
    std::vector<RankedHypothesis> moves;
    for (Hypothesis& hypothesis : candidates) {
      if (hypothesis.moves()) {
        try_move(std::move(hypothesis), moves);
      } else if (!sample_.empty()) {
        Score score = score_values(contract_, tensor_, hypothesis, sample_, threads_);
        values.push_back({std::move(hypothesis), score});
      }
    }
    confirm_values(values);
    std::ranges::move(moves, std::back_inserter(values));
    std::ranges::stable_sort(values, better);
    return values;
  }

 private:
  void try_move(Hypothesis hypothesis, std::vector<RankedHypothesis>& moves) const {
    if (tensor_.before == nullptr) return;
    if (promise_of_move(contract_, tensor_, hypothesis, move_sample_) < kPromisingMoveShare) {
      return;
    }
    const Score score = score_moves(contract_, tensor_, hypothesis, set_, threads_);
    moves.push_back({std::move(hypothesis), score});
  }

  // From scores on the sample to scores on everything.
  void confirm_values(std::vector<RankedHypothesis>& ranked) const {
    std::ranges::stable_sort(ranked, better);
    const auto weak = [](const RankedHypothesis& r) {
      return r.score.coverage() < kPromisingShare;
    };
    if (ranked.size() > 1) {
      ranked.erase(std::remove_if(ranked.begin() + 1, ranked.end(), weak), ranked.end());
    }
    if (ranked.size() > kConfirmed) {
      ranked.erase(ranked.begin() + static_cast<std::ptrdiff_t>(kConfirmed), ranked.end());
    }
    for (RankedHypothesis& one : ranked) {
      if (sample_.size() < set_.heads.size()) {
        one.score = score_values(contract_, tensor_, one.hypothesis, set_.heads, threads_);
      }
      one.score.of = set_.total;  // elements that no row owns are not explained by values
    }
  }

  const HeadContract& contract_;
  const JudgedTensor& tensor_;
  const MismatchSet& set_;
  int threads_;
  std::vector<AffectedHead> sample_;
  std::vector<HeadAt> move_sample_;
};

}  // namespace

std::vector<AffectedHead> sample_heads(const std::vector<AffectedHead>& heads, std::size_t count) {
  if (heads.size() <= count) return heads;
  std::vector<AffectedHead> sample;
  for (std::size_t i = 0; i < count; ++i) sample.push_back(heads[i * heads.size() / count]);
  return sample;
}

Score score_values(const HeadContract& contract, const JudgedTensor& tensor,
                   const Hypothesis& hypothesis, const std::vector<AffectedHead>& heads,
                   int threads) {
  // A thread costs more than a small sample.
  if (heads.size() <= kSampleHeads) threads = 1;
  Score total;
  std::mutex mutex;
  reference::parallel_for(
      static_cast<std::int64_t>(heads.size()), threads, [&](std::int64_t begin, std::int64_t end) {
        Score part;
        for (std::int64_t i = begin; i < end; ++i) {
          part = part + score_head(contract, tensor, hypothesis, heads[index_of(i)].at);
        }
        const std::lock_guard lock(mutex);
        total = total + part;
      });
  return total;
}

Score score_moves(const HeadContract& contract, const JudgedTensor& tensor,
                  const Hypothesis& hypothesis, const MismatchSet& set, int threads) {
  MovedStores stores(contract, tensor, hypothesis);
  stores.run(threads);
  return stores.score(set);
}

std::vector<RankedHypothesis> rank_hypotheses(const HeadContract& contract,
                                              const JudgedTensor& tensor, const MismatchSet& set,
                                              std::vector<Hypothesis> candidates, int threads) {
  return Ranking(contract, tensor, set, threads).run(std::move(candidates));
}

}  // namespace zerodiff::compare
