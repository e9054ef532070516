#include "tools/path_invariance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <span>

#include "device/paths/run_path.h"

namespace zerodiff::tools {
namespace {

using Index = std::int64_t;

std::string first_difference(const Outputs& first, const Outputs& again) {
  for (const OutputField& field : kOutputFields) {
    if (!identical(first.*field.tensor, again.*field.tensor)) return std::string(field.name);
  }
  return {};
}

bool is_cache(Tensor Outputs::*field) {
  return field == &Outputs::k_cache || field == &Outputs::v_cache || field == &Outputs::kv_cache ||
         field == &Outputs::index_cache;
}

// Heads that the outermost axis counts before the rows.
Index outer_parts(const LayerCall& call, Tensor Outputs::*field) {
  return field == &Outputs::topk_index || field == &Outputs::index_score ? call.config.num_kv_heads
                                                                         : 1;
}

// Row `row` of the `rows` that the tensor has in each of its outer parts.
std::vector<std::byte> row_bytes(const Tensor& tensor, Index outer, Index rows, Index row) {
  const std::size_t pitch =
      tensor.size_bytes() / static_cast<std::size_t>(outer) / static_cast<std::size_t>(rows);
  std::vector<std::byte> bytes;
  for (Index part = 0; part < outer; ++part) {
    const auto first = static_cast<std::size_t>(part * rows + row) * pitch;
    const auto one = tensor.bytes().subspan(first, pitch);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  return bytes;
}

// A [rows, ...] tensor whose rows are all `fill` but the last, which is row `row` of `from`.
Tensor row_behind(const Tensor& from, Index row, Index rows, std::byte fill) {
  if (!from.present()) return {};
  Shape shape = from.shape();
  shape[0] = rows;
  Tensor tensor = Tensor::allocate(from.type(), std::move(shape));
  std::ranges::fill(tensor.bytes(), fill);
  const auto bytes = row_bytes(from, 1, from.dim(0), row);
  std::ranges::copy(bytes, tensor.bytes().last(bytes.size()).begin());
  return tensor;
}

Tensor selection_behind(const LayerCall& call, Index row, Index rows) {
  if (!call.topk_index.present()) return {};
  const Index heads = call.config.num_kv_heads;
  const Index topk = call.config.topk;
  Tensor tensor = Tensor::allocate(ElementType::int32, {heads, rows, topk});
  std::ranges::fill(tensor.bytes(), std::byte{0xFF});
  const auto from = call.topk_index.as<std::int32_t>();
  for (Index head = 0; head < heads; ++head) {
    const auto blocks =
        from.subspan(static_cast<std::size_t>((head * call.config.num_tokens + row) * topk),
                     static_cast<std::size_t>(topk));
    const auto last = static_cast<std::size_t>((head * rows + rows - 1) * topk);
    std::ranges::copy(blocks, tensor.as<std::int32_t>().subspan(last).begin());
  }
  return tensor;
}

// Requests up to the row's have no rows, the row's has all, later ones none.
Tensor starts_of(const LayerCall& call, Index row, Index rows) {
  Tensor starts = call.query_start_loc;
  if (!starts.present()) return starts;
  for (std::int32_t& start : starts.as<std::int32_t>()) {
    start = start <= row ? 0 : static_cast<std::int32_t>(rows);
  }
  return starts;
}

// The row behind `empty` rows without a position, on the caches of `whole`.
LayerCall row_alone(const LayerCall& call, const Outputs& whole, Index row, Index empty) {
  constexpr std::byte kNone{0xFF};  // -1, or NaN
  LayerCall alone = call;
  alone.config.batch_mode = BatchMode::eager;
  alone.config.num_tokens = empty + 1;
  alone.qkv = row_behind(call.qkv, row, empty + 1, kNone);
  alone.positions = row_behind(call.positions, row, empty + 1, kNone);
  alone.slot_mapping = row_behind(call.slot_mapping, row, empty + 1, kNone);
  alone.index_slot_mapping = row_behind(call.index_slot_mapping, row, empty + 1, kNone);
  alone.page16_slot_mapping = {};
  alone.query_start_loc = starts_of(call, row, empty + 1);
  alone.topk_index = selection_behind(call, row, empty + 1);
  alone.k_cache = whole.k_cache;
  alone.v_cache = whole.v_cache;
  alone.kv_cache = whole.kv_cache;
  alone.index_cache = whole.index_cache.present() ? whole.index_cache : call.index_cache;
  return alone;
}

std::vector<Index> chosen_rows(const LayerCall& call) {
  std::vector<Index> rows;
  const auto positions = call.positions.as<Index>();
  for (Index row = 0; row < call.config.num_tokens; ++row) {
    if (positions[static_cast<std::size_t>(row)] >= 0) rows.push_back(row);
  }
  if (rows.size() > 3) rows = {rows.front(), rows[rows.size() / 2], rows.back()};
  return rows;
}

// Where the row's outputs in the batch and those behind `empty` rows differ, or empty.
std::string compare_row(const LayerCall& call, const Outputs& whole, const Outputs& alone,
                        Index row, Index empty) {
  for (const OutputField& field : kOutputFields) {
    const Tensor& in_batch = whole.*field.tensor;
    const Tensor& by_itself = alone.*field.tensor;
    if (is_cache(field.tensor)) {
      if (!identical(in_batch, by_itself)) return std::string(field.name);
      continue;
    }
    if (!in_batch.present()) continue;
    // q and index_q have rows for the batch's padding, too.
    const bool padded = field.tensor == &Outputs::q || field.tensor == &Outputs::index_q;
    const Index rows = padded ? call.capacity() : call.config.num_tokens;
    const Index outer = outer_parts(call, field.tensor);
    if (row_bytes(in_batch, outer, rows, row) != row_bytes(by_itself, outer, empty + 1, empty)) {
      return std::string(field.name);
    }
  }
  return {};
}

}  // namespace

compare::RepeatReport repeat_path(const LayerCall& call, device::PathKind kind,
                                  device::Backend& backend, const device::PathOptions& options,
                                  int runs) {
  compare::RepeatReport report;
  report.path = name_of(kind);
  const device::PathLaunches launches = path_launches(kind, call, options);
  const auto resident = backend.allocate(launches.list);
  Outputs first;
  for (int i = 0; i < runs && report.equal; ++i) {
    resident->upload();
    const device::RunReport run = resident->run();
    std::string difference = run.ok() ? "" : to_string(run.faults.front());
    Outputs outputs = download_outputs(launches, *resident);
    if (difference.empty() && i > 0) difference = first_difference(first, outputs);
    if (i == 0) first = std::move(outputs);
    ++report.runs;
    if (difference.empty()) continue;
    report.equal = false;
    report.first_difference = fmt::format("run {} of {}: {}", i + 1, runs, difference);
  }
  return report;
}

compare::InvarianceReport rows_by_themselves(const LayerCall& call, const Outputs& whole,
                                             device::PathKind kind, device::Backend& backend,
                                             const device::PathOptions& options) {
  compare::InvarianceReport report;
  report.path = name_of(kind);
  for (const Index row : chosen_rows(call)) {
    report.rows.push_back(row);
    for (const Index empty : {Index{0}, Index{17}}) {
      const device::PathRun alone =
          run_path(row_alone(call, whole, row, empty), kind, backend, options);
      const std::string difference = alone.report.ok()
                                         ? compare_row(call, whole, alone.outputs, row, empty)
                                         : to_string(alone.report.faults.front());
      if (difference.empty()) continue;
      report.invariant = false;
      report.first_difference =
          fmt::format("row {} by itself, at index {}: {}", row, empty, difference);
      return report;
    }
  }
  return report;
}

}  // namespace zerodiff::tools
