// diagnose_attention() of attention_hypotheses.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "compare/attention_hypotheses.h"
#include "compare/attention_signatures.h"
#include "reference/number_formats.h"
#include "reference/parallel.h"

namespace zerodiff::compare {
namespace {

// Two explanations are told apart by more than this share of the elements at fault.
constexpr double kToldApart = 0.002;

// A row at fault under the contract.
struct FaultyRow {
  AttendedRow attended;
  std::vector<bool> outside;           // [group * 128]
  std::vector<double> largest_scores;  // [group], natural units
  std::array<bool, static_cast<std::size_t>(kHeadDim)> tail_not_finite{};
};

struct Ranked {
  Explanation explanation;
  std::uint64_t elements_hash = 0;  // of the explained elements
  bool last_resort = false;
  std::int64_t score() const { return explanation.explained - explanation.contradicted; }
};

// What pages are read by, without the pools.
LayerCall reading_call(const LayerCall& call) {
  LayerCall reading;
  reading.config = call.config;
  reading.qkv = Tensor::zeros(call.model_dtype(), {1, 1});
  reading.block_table = call.block_table;
  reading.k_scale = call.k_scale;
  reading.v_scale = call.v_scale;
  return reading;
}

class Diagnostician {
 public:
  Diagnostician(const LayerCall& call, const AttentionInputs& inputs, const Tensor& got,
                const AttentionDiagnosisOptions& options)
      : call_(call),
        inputs_(inputs),
        got_(got.as<std::uint16_t>()),
        type_(got.type()),
        options_(options),
        group_(call.config.num_heads / call.config.num_kv_heads) {}

  void look_at(const std::vector<std::int64_t>& faulty_rows);
  std::vector<Ranked> explanations() const;
  std::string pattern(const std::vector<std::int64_t>& faulty_rows) const;

 private:
  std::int64_t elements() const { return group_ * kHeadDim; }
  AttendedRow attended(std::int64_t row) const;
  std::span<const std::uint16_t> q_of(std::int64_t row) const {
    return inputs_.q->as<std::uint16_t>().subspan(static_cast<std::size_t>(row * elements()),
                                                  static_cast<std::size_t>(elements()));
  }
  std::span<const std::uint16_t> got_of(std::int64_t row) const {
    return got_.subspan(static_cast<std::size_t>(row * elements()),
                        static_cast<std::size_t>(elements()));
  }
  bool within(const RowBound& found, std::int64_t row, std::int64_t element) const;
  bool readable(const AttendedRow& row) const;
  FaultyRow look_at(AttentionBound& bound, std::int64_t row) const;
  void find_tail(AttentionBound& bound, FaultyRow& row) const;
  Ranked evaluate(const AttentionHypothesis& hypothesis) const;
  Ranked evaluate(const AttentionSignature& signature) const;
  static void count(bool explained, bool changed, bool outside, std::uint64_t place,
                    Ranked& ranked);

  const LayerCall& call_;
  const AttentionInputs& inputs_;
  std::span<const std::uint16_t> got_;
  ElementType type_;
  const AttentionDiagnosisOptions& options_;
  std::int64_t group_;
  std::vector<FaultyRow> rows_;
};

AttendedRow Diagnostician::attended(std::int64_t row) const {
  const auto width = static_cast<std::size_t>(inputs_.table->dim(1));
  const auto ids =
      inputs_.table->as<std::int32_t>().subspan(static_cast<std::size_t>(row) * width, width);
  return {row,
          {ids.begin(), ids.end()},
          inputs_.context_lens->as<std::int32_t>()[static_cast<std::size_t>(row)]};
}

bool Diagnostician::within(const RowBound& found, std::int64_t row, std::int64_t element) const {
  const std::int64_t head = element / kHeadDim;
  const std::int64_t d = element % kHeadDim;
  const auto got = static_cast<double>(
      reference::from_model_dtype(type_, got_of(row)[static_cast<std::size_t>(element)]));
  const auto headroom = headroom_of(type_, got, found.exact(d, head), found.bound(d, head),
                                    found.may_overflow(d, head));
  return !headroom || *headroom <= 1;
}

bool Diagnostician::readable(const AttendedRow& row) const {
  const std::int64_t heads = call_.config.num_kv_heads;
  const bool joined = call_.config.kv_storage == KvStorage::block_contiguous;
  const std::int64_t apart = joined ? 2 * kPagesPerBlock : kPagesPerBlock;
  const auto pages = static_cast<std::int64_t>(row.folded_ids.size());
  if (row.length <= 0 || row.length > pages * kPageSize) return false;
  return std::all_of(row.folded_ids.begin(),
                     row.folded_ids.begin() + (row.length + kPageSize - 1) / kPageSize,
                     [&](std::int64_t id) {
                       return id >= 0 && id / heads < call_.num_blocks() * apart &&
                              id / heads % apart < kPagesPerBlock;
                     });
}

void Diagnostician::find_tail(AttentionBound& bound, FaultyRow& row) const {
  const std::int64_t live = row.attended.length % kBlockSize;
  if (live == 0) return;
  const std::int64_t last = row.attended.length / kBlockSize;
  AttendedRow whole = row.attended;
  whole.length = (last + 1) * kBlockSize;
  if (!readable(whole)) return;
  const BlockValues& values = bound.values(whole.folded_ids, whole.length, last);
  for (std::int64_t i = live; i < kBlockSize; ++i) {
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      if (!std::isfinite(values(i, d))) row.tail_not_finite[static_cast<std::size_t>(d)] = true;
    }
  }
}

FaultyRow Diagnostician::look_at(AttentionBound& bound, std::int64_t row) const {
  FaultyRow faulty;
  faulty.attended = attended(row);
  faulty.largest_scores.assign(static_cast<std::size_t>(group_), 0);
  if (faulty.attended.length == 0) {
    for (const std::uint16_t bits : got_of(row)) faulty.outside.push_back(bits != 0);
    return faulty;
  }
  const RowBound& found =
      bound.evaluate(faulty.attended.folded_ids, faulty.attended.length, q_of(row));
  for (std::int64_t i = 0; i < elements(); ++i) faulty.outside.push_back(!within(found, row, i));
  for (std::int64_t head = 0; head < group_; ++head) {
    faulty.largest_scores[static_cast<std::size_t>(head)] =
        found.largest(head) * 0.6931471805599453;
  }
  find_tail(bound, faulty);
  return faulty;
}

void Diagnostician::look_at(const std::vector<std::int64_t>& faulty_rows) {
  const auto most = static_cast<std::size_t>(options_.most_rows);
  const std::size_t stride = std::max<std::size_t>(1, (faulty_rows.size() + most - 1) / most);
  AttentionBound bound(call_, *inputs_.k_pool, *inputs_.v_pool, options_.rules);
  for (std::size_t i = 0; i < faulty_rows.size(); i += stride) {
    rows_.push_back(look_at(bound, faulty_rows[i]));
  }
}

void Diagnostician::count(bool explained, bool changed, bool outside, std::uint64_t place,
                          Ranked& ranked) {
  if (outside) ++ranked.explanation.of;
  if (outside && explained) {
    ++ranked.explanation.explained;
    ranked.elements_hash = (ranked.elements_hash ^ place) * 0x9E3779B97F4A7C15ULL;
  }
  if (!outside && changed) ++ranked.explanation.contradicted;
}

Ranked Diagnostician::evaluate(const AttentionHypothesis& hypothesis) const {
  Ranked ranked{
      {hypothesis.id, hypothesis.detail, "sparse_attention", 0, 0, 0}, 0, hypothesis.last_resort};
  LayerCall reading = reading_call(call_);
  if (hypothesis.reading) hypothesis.reading(reading);
  Tensor k_pool;
  Tensor v_pool;
  if (hypothesis.pool) {
    k_pool = hypothesis.pool(*inputs_.k_pool, false);
    v_pool = hypothesis.pool(*inputs_.v_pool, true);
  }
  AttentionBound bound(reading, hypothesis.pool ? k_pool : *inputs_.k_pool,
                       hypothesis.pool ? v_pool : *inputs_.v_pool, options_.rules,
                       hypothesis.change);
  for (const FaultyRow& row : rows_) {
    AttendedRow attended = row.attended;
    if (hypothesis.row) hypothesis.row(attended);
    if (const std::int64_t tile = hypothesis.dead_to_multiple_of; tile > 0) {
      const std::int64_t dead = (attended.length + tile - 1) / tile * tile - attended.length;
      bound.set_dead_tokens(static_cast<double>(dead));
    }
    const RowBound* const found =
        row.attended.length > 0 && readable(attended)
            ? &bound.evaluate(attended.folded_ids, attended.length, q_of(attended.row))
            : nullptr;
    for (std::int64_t i = 0; i < elements(); ++i) {
      const bool same = found != nullptr && within(*found, attended.row, i);
      count(same, found != nullptr && !same, row.outside[static_cast<std::size_t>(i)],
            static_cast<std::uint64_t>(attended.row * elements() + i), ranked);
    }
  }
  return ranked;
}

Ranked Diagnostician::evaluate(const AttentionSignature& signature) const {
  Ranked ranked{
      {signature.id, signature.detail, "sparse_attention", 0, 0, 0}, 0, signature.last_resort};
  for (const FaultyRow& row : rows_) {
    for (std::int64_t i = 0; i < elements(); ++i) {
      const auto head_index = static_cast<std::size_t>(i / kHeadDim);
      const AttendedHead head{
          type_,
          got_of(row.attended.row)
              .subspan(head_index * kHeadDim, static_cast<std::size_t>(kHeadDim)),
          row.attended.length,
          (row.attended.length + kBlockSize - 1) / kBlockSize,
          call_.config.topk,
          row.largest_scores[head_index],
          row.tail_not_finite};
      const auto d = static_cast<std::size_t>(i % kHeadDim);
      count(signature.explains(head, d), signature.changes(head, d),
            row.outside[static_cast<std::size_t>(i)],
            static_cast<std::uint64_t>(row.attended.row * elements() + i), ranked);
    }
  }
  return ranked;
}

std::vector<Ranked> Diagnostician::explanations() const {
  std::vector<Ranked> result;
  for (const AttentionSignature& signature : attention_signatures()) {
    result.push_back(evaluate(signature));
  }
  const std::vector<AttentionHypothesis> hypotheses = attention_hypotheses(call_);
  const std::size_t first = result.size();
  result.resize(first + hypotheses.size());
  reference::parallel_for(static_cast<std::int64_t>(hypotheses.size()), options_.threads,
                          [&](std::int64_t begin, std::int64_t end) {
                            for (auto i = static_cast<std::size_t>(begin);
                                 i < static_cast<std::size_t>(end); ++i) {
                              result[first + i] = evaluate(hypotheses[i]);
                            }
                          });
  return result;
}

std::string Diagnostician::pattern(const std::vector<std::int64_t>& faulty_rows) const {
  const std::int64_t rows = call_.config.num_tokens * call_.config.num_kv_heads;
  const auto faulty = static_cast<std::int64_t>(faulty_rows.size());
  std::string text = faulty == rows ? "all rows"
                                    : std::to_string(faulty) + " of " + std::to_string(rows) +
                                          " rows of the table";
  const auto all = [&](auto holds) {
    return std::ranges::all_of(faulty_rows, [&](std::int64_t row) { return holds(attended(row)); });
  };
  if (all([](const AttendedRow& row) { return row.length == 0; })) {
    text += ", without tokens";
  } else if (all([](const AttendedRow& row) { return row.length % kBlockSize != 0; }) &&
             faulty != rows) {
    text += ", with a partial last block";
  }
  std::int64_t heads = 0;
  for (std::int64_t head = 0; head < group_; ++head) {
    const auto begin = head * kHeadDim;
    heads += std::ranges::any_of(rows_, [&](const FaultyRow& row) {
      return std::any_of(row.outside.begin() + begin, row.outside.begin() + begin + kHeadDim,
                         [](bool outside) { return outside; });
    });
  }
  if (heads < group_) {
    text += ", " + std::to_string(heads) + " of " + std::to_string(group_) + " heads of a group";
  }
  return text;
}

// The first of those that the best score does not tell apart. A last resort loses to anything else
// that counts as an explanation.
std::size_t best_of(const std::vector<Ranked>& ranked) {
  const auto score = [](const Ranked& one) {
    const double of = static_cast<double>(one.explanation.of);
    const double share = of == 0 ? 0 : static_cast<double>(one.score()) / of;
    return share >= kExplainedShare && !one.last_resort ? 1 + share : share;
  };
  double best = -HUGE_VAL;
  for (const Ranked& one : ranked) best = std::max(best, score(one));
  const auto first = std::ranges::find_if(
      ranked, [&](const Ranked& one) { return score(one) >= best - kToldApart; });
  return static_cast<std::size_t>(first - ranked.begin());
}

void rank(std::vector<Ranked> ranked, Diagnosis& diagnosis) {
  const auto take_best = [&] {
    const auto at = ranked.begin() + static_cast<std::ptrdiff_t>(best_of(ranked));
    Ranked best = std::move(*at);
    ranked.erase(at);
    return best;
  };
  const Ranked best = take_best();
  diagnosis.stage = "sparse_attention";
  if (best.explanation.coverage() < kExplainedShare) {
    if (best.explanation.explained > 0) diagnosis.runner_up = best.explanation;
    return;
  }
  diagnosis.best = best.explanation;
  for (const Ranked& other : ranked) {
    if (other.elements_hash == best.elements_hash && other.score() == best.score()) {
      diagnosis.ties.push_back(other.explanation);
    }
  }
  const Ranked next = take_best();
  if (static_cast<double>(next.explanation.explained) >=
      kCloseShare * static_cast<double>(best.explanation.explained)) {
    diagnosis.runner_up = next.explanation;
  }
}

}  // namespace

Diagnosis diagnose_attention(const LayerCall& call, const AttentionInputs& inputs,
                             const Tensor& attn_output,
                             const std::vector<std::int64_t>& faulty_rows, const std::string& path,
                             const AttentionDiagnosisOptions& options) {
  Diagnosis diagnosis;
  diagnosis.path = path;
  diagnosis.output = diagnosis.tensor = "attn_output";
  Diagnostician diagnostician(call, inputs, attn_output, options);
  diagnostician.look_at(faulty_rows);
  rank(diagnostician.explanations(), diagnosis);
  diagnosis.pattern = diagnostician.pattern(faulty_rows);
  for (const std::int64_t row : faulty_rows) {
    const std::int64_t token = row / call.config.num_kv_heads;
    if (diagnosis.tokens.empty() || diagnosis.tokens.back() != token) {
      diagnosis.tokens.push_back(token);
    }
  }
  if (diagnosis.best) diagnosis.mismatches = diagnosis.best->of;
  return diagnosis;
}

}  // namespace zerodiff::compare
