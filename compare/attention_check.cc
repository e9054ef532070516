#include "compare/attention_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "compare/attention_bound.h"
#include "reference/number_formats.h"
#include "reference/parallel.h"

namespace zerodiff::compare {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double largest_finite(ElementType type) {
  return type == ElementType::bfloat16 ? 0x1.FEp127 : 65504.0;
}

// What one thread found.
struct Findings {
  HeadroomCollector headroom;
  Resolution resolution;
  std::int64_t unreadable_rows = 0;
  std::int64_t first_unreadable_row = -1;
  std::vector<std::int64_t> faulty_rows;

  void merge(const Findings& other) {
    headroom.merge(other.headroom);
    resolution.tokens += other.resolution.tokens;
    resolution.resolved += other.resolution.resolved;
    resolution.rows += other.resolution.rows;
    resolution.rows_in_call += other.resolution.rows_in_call;
    unreadable_rows += other.unreadable_rows;
    faulty_rows.insert(faulty_rows.end(), other.faulty_rows.begin(), other.faulty_rows.end());
    const std::int64_t first = other.first_unreadable_row;
    if (first >= 0 && (first_unreadable_row < 0 || first < first_unreadable_row)) {
      first_unreadable_row = first;
    }
  }
};

class RowChecker {
 public:
  RowChecker(const LayerCall& call, const AttentionInputs& inputs, const Tensor& attn_output,
             const AccumulateRules& rules, const AttentionCheckOptions& options)
      : call_(call),
        inputs_(inputs),
        output_(attn_output.as<std::uint16_t>()),
        type_(attn_output.type()),
        group_(call.config.num_heads / call.config.num_kv_heads),
        bound_(call, *inputs.k_pool, *inputs.v_pool, rules),
        findings{HeadroomCollector(options.kept_outside), {}, 0, -1, {}} {}

  void check(std::int64_t row, bool resolve);

 private:
  void check_row(std::int64_t row, bool resolve);
  std::int64_t length_of(std::int64_t row) const {
    return inputs_.context_lens->as<std::int32_t>()[static_cast<std::size_t>(row)];
  }
  std::span<const std::int32_t> ids_of(std::int64_t row) const {
    const auto width = static_cast<std::size_t>(inputs_.table->dim(1));
    return inputs_.table->as<std::int32_t>().subspan(static_cast<std::size_t>(row) * width, width);
  }
  void check_empty(std::int64_t row);
  void check_elements(std::int64_t row, const RowBound& found);
  void check_element(std::int64_t flat, double exact, double bound, bool may_overflow);
  void resolve_tokens(std::int64_t row, const RowBound& found);
  // Whether some dim of v is further from the output than `threshold` times two bounds.
  bool moves_output(const double* v, std::int64_t head, double threshold) const;

  const LayerCall& call_;
  const AttentionInputs& inputs_;
  std::span<const std::uint16_t> output_;
  ElementType type_;
  std::int64_t group_;
  AttentionBound bound_;
  Eigen::ArrayXXd exact_;         // [128][group], of the row whose tokens are resolved
  Eigen::ArrayXXd half_inverse_;  // 1 / (2 bound)

 public:
  Findings findings;
};

void RowChecker::check_empty(std::int64_t row) {
  const std::int64_t elements = group_ * kHeadDim;
  for (std::int64_t i = row * elements; i < (row + 1) * elements; ++i) {
    const std::uint16_t bits = output_[static_cast<std::size_t>(i)];
    const double got = static_cast<double>(reference::from_model_dtype(type_, bits));
    findings.headroom.add(i, got, 0, 0, bits == 0 ? 0 : kInfinity);
  }
}

void RowChecker::check_element(std::int64_t flat, double exact, double bound, bool may_overflow) {
  const auto got = static_cast<double>(
      reference::from_model_dtype(type_, output_[static_cast<std::size_t>(flat)]));
  if (const auto headroom = headroom_of(type_, got, exact, bound, may_overflow)) {
    findings.headroom.add(flat, got, exact, bound, *headroom);
  } else {
    findings.headroom.add_unbounded();
  }
}

void RowChecker::check_elements(std::int64_t row, const RowBound& found) {
  for (std::int64_t head = 0; head < group_; ++head) {
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      check_element((row * group_ + head) * kHeadDim + d, found.exact(d, head),
                    found.bound(d, head), found.may_overflow(d, head));
    }
  }
}

bool RowChecker::moves_output(const double* v, std::int64_t head, double threshold) const {
  constexpr std::int64_t kPart = 16;
  for (std::int64_t d = 0; d < kHeadDim; d += kPart) {
    const Eigen::Map<const Eigen::Array<double, kPart, 1>> part(v + d);
    const double distance = ((part - exact_.col(head).segment<kPart>(d)).abs() *
                             half_inverse_.col(head).segment<kPart>(d))
                                .maxCoeff();
    if (distance > threshold) return true;
  }
  return false;
}

void RowChecker::resolve_tokens(std::int64_t row, const RowBound& found) {
  exact_ = found.exact.array();
  half_inverse_ = 0.5 / found.bound.array();
  const Eigen::ArrayXd farthest = exact_.abs().colwise().maxCoeff().transpose();
  const Eigen::ArrayXd steepest = half_inverse_.colwise().maxCoeff().transpose();
  const std::int64_t length = found.tokens;
  for (std::int64_t n = 0; n * kBlockSize < length; ++n) {
    const BlockValues& values = bound_.values(ids_of(row), length, n);
    for (std::int64_t i = 0; i < values.rows(); ++i) {
      const double largest = values.row(i).cwiseAbs().maxCoeff();
      for (std::int64_t head = 0; head < group_; ++head) {
        const double p = found.weights(n * kBlockSize + i, head) / found.sums(head);
        // Leaving the only token out leaves nothing to be right about.
        const double threshold = p < 1 ? (1 - p) / p : 0;
        if ((largest + farthest(head)) * steepest(head) <= threshold) continue;
        const double* const v = values.data() + i * kHeadDim;
        if (p >= 1 || moves_output(v, head, threshold)) ++findings.resolution.resolved;
      }
    }
  }
  findings.resolution.tokens += length * group_;
  ++findings.resolution.rows;
}

void RowChecker::check(std::int64_t row, bool resolve) {
  const std::int64_t outside = findings.headroom.outside();
  check_row(row, resolve);
  if (findings.headroom.outside() > outside) findings.faulty_rows.push_back(row);
}

void RowChecker::check_row(std::int64_t row, bool resolve) {
  if (!readable_row(call_, inputs_, row)) {
    ++findings.unreadable_rows;
    if (findings.first_unreadable_row < 0) findings.first_unreadable_row = row;
    return;
  }
  const std::int64_t length = length_of(row);
  if (length == 0) return check_empty(row);
  const auto elements = static_cast<std::size_t>(group_ * kHeadDim);
  const RowBound& found = bound_.evaluate(
      ids_of(row), length,
      inputs_.q->as<std::uint16_t>().subspan(static_cast<std::size_t>(row) * elements, elements));
  check_elements(row, found);
  ++findings.resolution.rows_in_call;
  if (resolve) resolve_tokens(row, found);
}

}  // namespace

std::optional<double> headroom_of(ElementType type, double got, double exact, double bound,
                                  bool may_overflow) {
  if (may_overflow && (!std::isfinite(got) || !std::isfinite(exact) || !std::isfinite(bound))) {
    return std::nullopt;
  }
  if (std::isnan(exact) || std::isnan(got)) {
    return std::isnan(exact) && std::isnan(got) ? 0 : kInfinity;
  }
  if (!std::isinf(got)) return std::fabs(got - exact) / bound;
  // Rounding to infinity starts half a step past the largest finite value.
  const double reach = std::copysign(1.0, got) * exact + bound;
  return reach > largest_finite(type) ? 1 : kInfinity;
}

bool readable_row(const LayerCall& call, const AttentionInputs& inputs, std::int64_t row) {
  const std::int64_t heads = call.config.num_kv_heads;
  const bool joined = call.config.kv_storage == KvStorage::block_contiguous;
  const std::int64_t pages_apart = joined ? 2 * kPagesPerBlock : kPagesPerBlock;
  const std::int64_t pages = call.num_blocks() * pages_apart;
  const std::int64_t width = inputs.table->dim(1);
  const std::int64_t length =
      inputs.context_lens->as<std::int32_t>()[static_cast<std::size_t>(row)];
  if (length < 0 || length > width * kPageSize) return false;
  const auto ids = inputs.table->as<std::int32_t>().subspan(
      static_cast<std::size_t>(row * width),
      static_cast<std::size_t>((length + kPageSize - 1) / kPageSize));
  return std::all_of(ids.begin(), ids.end(), [&](std::int64_t id) {
    const std::int64_t page = id / heads;
    return id >= 0 && id % heads == row % heads && page < pages &&
           page % pages_apart < kPagesPerBlock;
  });
}

AttentionCheck check_attention(const LayerCall& call, const AttentionInputs& inputs,
                               const Tensor& attn_output, const AccumulateRules& rules,
                               const AttentionCheckOptions& options) {
  const std::int64_t rows = call.config.num_tokens * call.config.num_kv_heads;
  const std::int64_t most = options.most_resolution_rows;
  const std::int64_t stride = most == 0 ? 1 : std::max<std::int64_t>(1, (rows + most - 1) / most);
  Findings all{HeadroomCollector(options.kept_outside), {}, 0, -1, {}};
  std::mutex mutex;
  reference::parallel_for(rows, options.threads, [&](std::int64_t begin, std::int64_t end) {
    RowChecker checker(call, inputs, attn_output, rules, options);
    for (std::int64_t row = begin; row < end; ++row) checker.check(row, row % stride == 0);
    const std::lock_guard lock(mutex);
    all.merge(checker.findings);
  });
  std::sort(all.faulty_rows.begin(), all.faulty_rows.end());
  return {all.headroom.result(), all.resolution, all.unreadable_rows, all.first_unreadable_row,
          std::move(all.faulty_rows)};
}

}  // namespace zerodiff::compare
