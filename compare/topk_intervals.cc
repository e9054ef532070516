#include "compare/topk_intervals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "reference/slot_mapping.h"
#include "reference/visible_blocks.h"

namespace zerodiff::compare {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kInitScore = 1e30F;
constexpr double kLocalScore = 1e29F;
constexpr double kNanScore = -1e30F;
// Scores near those of forced blocks: whether they rank above depends on `score_scale`.
constexpr double kNearForced = 1e27;
constexpr double kScaling = 4 * 0x1p-24;

using Ids = std::span<const std::int32_t>;

// Ranking intervals of the visible blocks of a row.
std::vector<ScoreInterval> ranked(const LayerCall& call, const ScoreIntervals& intervals,
                                  std::int64_t head, std::int64_t token) {
  const std::int64_t visible = reference::visible_blocks(call, token);
  std::vector<ScoreInterval> result;
  for (std::int64_t block = 0; block < visible; ++block) {
    ScoreInterval score = intervals.at(head, token, block);
    if (block >= visible - call.config.local_blocks) {
      score = {kLocalScore, kLocalScore, kLocalScore};
    } else if (block < call.config.init_blocks) {
      score = {kInitScore, kInitScore, kInitScore};
    } else if (std::isnan(score.exact)) {
      score = {kNanScore, kNanScore, kNanScore};
    } else if (std::fabs(score.exact) > kNearForced || score.high == kInfinity) {
      score = {-kInfinity, score.exact, kInfinity};
    } else {
      score.low -= kScaling * std::fabs(score.low);
      score.high += kScaling * std::fabs(score.high);
    }
    result.push_back(score);
  }
  return result;
}

bool contains(Ids ids, std::int64_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Empty if the row holds min(topk, visible) distinct visible blocks, then -1.
std::string malformation(Ids ids, std::int64_t visible) {
  const auto wanted = std::min<std::int64_t>(static_cast<std::int64_t>(ids.size()), visible);
  for (std::size_t rank = 0; rank < ids.size(); ++rank) {
    const std::int64_t id = ids[rank];
    const std::string at = "rank " + std::to_string(rank) + " is " + std::to_string(id);
    if (static_cast<std::int64_t>(rank) >= wanted) {
      if (id != -1) return at + ", wanted -1 past " + std::to_string(wanted) + " blocks";
    } else if (id < 0 || id >= visible) {
      return at + ", wanted a block below " + std::to_string(visible);
    } else if (contains(ids.first(rank), id)) {
      return at + " for the second time";
    }
  }
  return "";
}

class RowJudge {
 public:
  RowJudge(const LayerCall& call, const ScoreIntervals& intervals, const SelectionOptions& options)
      : call_(call), intervals_(intervals), options_(options) {}

  SelectionDifference judge(std::int64_t head, std::int64_t token, Ids contract, Ids got) const;

 private:
  void weigh_sets(const std::vector<ScoreInterval>& scores, Ids got,
                  SelectionDifference& row) const;
  void check_order(const std::vector<ScoreInterval>& scores, Ids got,
                   SelectionDifference& row) const;

  const LayerCall& call_;
  const ScoreIntervals& intervals_;
  const SelectionOptions& options_;
};

void RowJudge::weigh_sets(const std::vector<ScoreInterval>& scores, Ids got,
                          SelectionDifference& row) const {
  std::int64_t worst = -1;
  std::int64_t best = -1;
  const auto at = [&](std::int64_t id) { return scores[static_cast<std::size_t>(id)]; };
  for (std::int64_t id = 0; id < static_cast<std::int64_t>(scores.size()); ++id) {
    if (contains(got, id)) {
      if (worst < 0 || at(id).high < at(worst).high) worst = id;
    } else if (best < 0 || at(id).low > at(best).low) {
      best = id;
    }
  }
  if (worst < 0 || best < 0) return;
  row.gap = at(best).low - at(worst).high;
  if (!(at(best).low > at(worst).high)) return;
  row.verdict = SelectionVerdict::wrong;
  const bool forced = at(best).low == at(best).high && at(best).low >= kLocalScore;
  row.problem = std::string(forced ? "forced block " : "block ") + std::to_string(best) +
                " is left out although it is above block " + std::to_string(worst);
}

void RowJudge::check_order(const std::vector<ScoreInterval>& scores, Ids got,
                           SelectionDifference& row) const {
  for (std::size_t rank = 1; rank < got.size() && got[rank] >= 0; ++rank) {
    const ScoreInterval& before = scores[static_cast<std::size_t>(got[rank - 1])];
    if (!(scores[static_cast<std::size_t>(got[rank])].low > before.high)) continue;
    row.verdict = SelectionVerdict::ill_ordered;
    row.problem = "block " + std::to_string(got[rank - 1]) + " stands before the better block " +
                  std::to_string(got[rank]);
    return;
  }
}

SelectionDifference RowJudge::judge(std::int64_t head, std::int64_t token, Ids contract,
                                    Ids got) const {
  SelectionDifference row;
  if (std::equal(contract.begin(), contract.end(), got.begin())) return row;
  row.where = {{"kv_head", head},
               {"token", token},
               {"request", reference::request_of_row(call_, token)},
               {"position", reference::position_of(call_, token)}};
  const std::vector<ScoreInterval> scores = ranked(call_, intervals_, head, token);
  row.problem = malformation(got, static_cast<std::int64_t>(scores.size()));
  if (!row.problem.empty()) {
    row.verdict = SelectionVerdict::malformed;
    return row;
  }
  bool equal_scores = true;
  for (const std::int32_t id : got) {
    if (id < 0 || contains(contract, id)) continue;
    row.entered.push_back({id, scores[static_cast<std::size_t>(id)]});
  }
  for (const std::int32_t id : contract) {
    if (id < 0 || contains(got, id)) continue;
    row.left.push_back({id, scores[static_cast<std::size_t>(id)]});
    equal_scores &= row.left.back().score.exact == row.left.front().score.exact;
  }
  for (const RankedBlock& block : row.entered) {
    equal_scores &= block.score.exact == row.left.front().score.exact;
  }
  row.verdict = row.entered.empty() ? SelectionVerdict::reordered
                : equal_scores      ? SelectionVerdict::tied
                                    : SelectionVerdict::within;
  weigh_sets(scores, got, row);
  if (options_.exact_order && row.verdict <= SelectionVerdict::within) {
    // Another order of blocks whose intervals overlap is one of the sums, not of the ranks.
    if (row.verdict == SelectionVerdict::reordered) row.verdict = SelectionVerdict::within;
    check_order(scores, got, row);
  }
  return row;
}

void count(const SelectionDifference& row, std::int64_t flat_row, std::size_t kept,
           SelectionCheck& check) {
  ++check.rows;
  if (row.verdict == SelectionVerdict::identical) ++check.identical;
  if (row.verdict == SelectionVerdict::reordered) ++check.reordered;
  if (row.verdict == SelectionVerdict::tied) ++check.tied;
  if (row.verdict == SelectionVerdict::within) ++check.within;
  if (row.verdict > SelectionVerdict::reordered && check.first.size() < kept) {
    check.first.push_back(row);
  }
  if (row.verdict <= SelectionVerdict::within) return;
  ++check.faults;
  check.faulty_rows.push_back(flat_row);
  if (check.first_faults.size() < kept) check.first_faults.push_back(row);
}

}  // namespace

const char* name_of(SelectionVerdict verdict) {
  switch (verdict) {
    case SelectionVerdict::identical:
      return "identical";
    case SelectionVerdict::reordered:
      return "reordered";
    case SelectionVerdict::tied:
      return "tied";
    case SelectionVerdict::within:
      return "within";
    case SelectionVerdict::ill_ordered:
      return "ill_ordered";
    case SelectionVerdict::wrong:
      return "wrong";
    default:
      return "malformed";
  }
}

SelectionCheck check_selection(const LayerCall& call, const ScoreIntervals& intervals,
                               const Tensor& contract, const Tensor& topk_index,
                               const SelectionOptions& options) {
  SelectionCheck check;
  const RowJudge judge(call, intervals, options);
  const auto width = static_cast<std::size_t>(call.config.topk);
  const std::int64_t tokens = call.config.num_tokens;
  for (std::int64_t row = 0; row < call.config.num_kv_heads * tokens; ++row) {
    const auto start = static_cast<std::size_t>(row) * width;
    count(judge.judge(row / tokens, row % tokens, contract.as<std::int32_t>().subspan(start, width),
                      topk_index.as<std::int32_t>().subspan(start, width)),
          row, options.kept, check);
  }
  return check;
}

}  // namespace zerodiff::compare
