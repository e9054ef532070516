#include "compare/fp8_contract.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <thread>
#include <utility>

#include "compare/fp8_path_check.h"
#include "compare/written_elements.h"
#include "reference/number_formats.h"
#include "reference/parallel.h"
#include "reference/qk_norm_rope.h"
#include "reference/reshape_and_cache.h"

namespace zerodiff::compare {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

// The rows [begin, end) of a call, for all paths.
class RowChecker {
 public:
  RowChecker(const LayerCall& call, const WrittenSlots& written,
             const std::vector<PathOutputs>& paths)
      : call_(call),
        written_(written),
        stage_(call),
        k_scale_(call, call.k_scale),
        v_scale_(call, call.v_scale),
        k_geometry_(call, joined() ? CacheOutput::kv_cache : CacheOutput::k_cache),
        v_geometry_(call, joined() ? CacheOutput::kv_cache : CacheOutput::v_cache) {
    for (const PathOutputs& path : paths) checks_.push_back(path_check(call, path));
  }

  void run(std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      stage_.rotate_row(token, row_);
      for (PathCheck& check : checks_) check_row(token, check);
    }
  }

  std::vector<PathCheck>& checks() { return checks_; }

 private:
  bool joined() const { return call_.config.kv_storage == KvStorage::block_contiguous; }
  bool per_slot_scales() const {
    return call_.config.scale_granularity == ScaleGranularity::head_slot;
  }

  void check_row(std::int64_t token, PathCheck& check) {
    const std::int64_t kv_slot = written_.kv_slot_of_row[at(token)];
    if (kv_slot >= 0 && check.k) check_keys(token, kv_slot, check);
    if (kv_slot >= 0 && check.v) check_values(token, kv_slot, check);
    if (check.index_k) check_index_keys(token, check);
    if (check.index_q) check_index_queries(token, check);
  }

  void check_keys(std::int64_t token, std::int64_t slot, PathCheck& check) {
    for (std::int64_t head = 0; head < call_.config.num_kv_heads; ++head) {
      const float scale = k_scale_.at(head, slot);
      if (per_slot_scales()) check.k->add_scale(scale);
      for (std::int64_t dim = 0; dim < kHeadDim; ++dim) {
        const float z = row_.k[at(head * kHeadDim + dim)];
        const float input =
            reference::k_to_quantize(call_.model_dtype(), call_.config.quantize_from, z);
        const auto flat = k_geometry_.flat_index({kKeyPlane, slot, -1, 0, 0, head, dim});
        check.k->add({check.k_codes[flat], input, scale, token, head, dim});
      }
    }
  }

  void check_values(std::int64_t token, std::int64_t slot, PathCheck& check) {
    for (std::int64_t head = 0; head < call_.config.num_kv_heads; ++head) {
      const float scale = v_scale_.at(head, slot);
      if (per_slot_scales()) check.v->add_scale(scale);
      for (std::int64_t dim = 0; dim < kHeadDim; ++dim) {
        const float input =
            reference::from_model_dtype(call_.model_dtype(), row_.v[at(head * kHeadDim + dim)]);
        const auto flat = v_geometry_.flat_index({kValuePlane, slot, -1, 0, 0, head, dim});
        check.v->add({check.v_codes[flat], input, scale, token, head, dim});
      }
    }
  }

  void check_index_keys(std::int64_t token, PathCheck& check) {
    const std::int64_t slot = written_.index_slot_of_row[at(token)];
    if (slot < 0) return;
    for (std::int64_t dim = 0; dim < kHeadDim; ++dim) {
      const float input = reference::k_to_quantize(call_.model_dtype(), call_.config.quantize_from,
                                                   row_.index_k[at(dim)]);
      check.index_k->add({check.index_k_codes[slot * kHeadDim + dim], input, 1, token, 0, dim});
    }
  }

  void check_index_queries(std::int64_t token, PathCheck& check) {
    const std::int64_t elements = call_.config.num_index_heads * kHeadDim;
    const bool rounded = call_.config.index_q_from == IndexQFrom::model_dtype;
    for (std::int64_t i = 0; i < elements; ++i) {
      const float z = row_.index_q[at(i)];
      const float input = rounded ? reference::round_to_model_dtype(call_.model_dtype(), z) : z;
      check.index_q->add(
          {check.index_q_codes[token * elements + i], input, 1, token, i / kHeadDim, i % kHeadDim});
    }
  }

  const LayerCall& call_;
  const WrittenSlots& written_;
  reference::QkNormRope stage_;
  reference::ScaleReader k_scale_;
  reference::ScaleReader v_scale_;
  CacheGeometry k_geometry_;
  CacheGeometry v_geometry_;
  std::vector<PathCheck> checks_;
  reference::RotatedRow row_;
};

void append(std::optional<Fp8TensorCheck>& total, const std::optional<Fp8TensorCheck>& later) {
  if (total) total->append(*later);
}

void add_tensor_scales(const LayerCall& call, PathCheck& check) {
  if (call.config.scale_granularity != ScaleGranularity::tensor) return;
  if (check.k && call.k_scale.present()) check.k->add_scale(call.k_scale.as<float>()[0]);
  if (check.v && call.v_scale.present()) check.v->add_scale(call.v_scale.as<float>()[0]);
}

std::string declaration(const LayerConfig& config) {
  const auto field = [](std::string_view name, std::string_view value) {
    return ", " + std::string(name) + " " + std::string(value);
  };
  return "K/V " + std::string(cache_dtype_name(config.kv_cache_dtype)) +
         field("index", cache_dtype_name(config.index_cache_dtype)) +
         field("scale_op", name_of(config.scale_op)) +
         field("quantize_from", name_of(config.quantize_from)) +
         field("overflow", name_of(config.overflow)) +
         field("scale_granularity", name_of(config.scale_granularity)) +
         field("index_q_from", name_of(config.index_q_from));
}

// The checks of all scheduled rows, in row order.
std::vector<PathCheck> run_checks(const LayerCall& call, const std::vector<PathOutputs>& paths,
                                  int threads) {
  const std::int64_t rows = call.config.num_tokens;
  const WrittenSlots written = written_slots(call);
  const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  const std::int64_t parts =
      std::clamp<std::int64_t>(threads > 0 ? threads : cores, 1, std::max<std::int64_t>(rows, 1));
  std::vector<RowChecker> checkers;
  for (std::int64_t part = 0; part < parts; ++part) checkers.emplace_back(call, written, paths);
  reference::parallel_for(
      parts, static_cast<int>(parts), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t part = begin; part < end; ++part) {
          checkers[at(part)].run(rows * part / parts, rows * (part + 1) / parts);
        }
      });
  std::vector<PathCheck> totals = std::move(checkers.front().checks());
  for (std::size_t part = 1; part < checkers.size(); ++part) {
    for (std::size_t path = 0; path < totals.size(); ++path) {
      const PathCheck& later = checkers[part].checks()[path];
      append(totals[path].k, later.k);
      append(totals[path].v, later.v);
      append(totals[path].index_k, later.index_k);
      append(totals[path].index_q, later.index_q);
    }
  }
  for (PathCheck& total : totals) add_tensor_scales(call, total);
  return totals;
}

}  // namespace

Fp8ContractReport fp8_contract_report(const LayerCall& call, const std::vector<PathOutputs>& paths,
                                      int threads) {
  Fp8ContractReport report;
  const bool fp8_index =
      call.config.index_cache_dtype.has_value() && !call.config.skip_index_branch;
  report.applies = call.config.kv_cache_dtype.has_value() || fp8_index;
  if (!report.applies) return report;
  report.declared = declaration(call.config);
  for (const PathCheck& check : run_checks(call, paths, threads)) {
    for (const auto* tensor : {&check.k, &check.v, &check.index_k, &check.index_q}) {
      if (*tensor) report.tensors.push_back((*tensor)->report());
    }
  }
  return report;
}

}  // namespace zerodiff::compare
