#include "compare/attention_hypotheses.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "reference/slot_mapping.h"

namespace zerodiff::compare {
namespace {

using Hypotheses = std::vector<AttentionHypothesis>;

constexpr double kLog2E = 1.4426950408889634;

AttentionHypothesis scaled(const char* id, const char* detail, double factor) {
  AttentionHypothesis hypothesis{id, detail};
  hypothesis.change.scale_factor = factor;
  return hypothesis;
}

void add_score_scales(const LayerCall& call, Hypotheses& list) {
  const auto scale = static_cast<double>(call.config.sm_scale);
  list.push_back(scaled("attn-sm-scale", "scores without sm_scale", 1 / scale));
  list.push_back(scaled("attn-sm-scale", "scores times sm_scale twice", scale));
  list.push_back(scaled("attn-sm-scale", "scores times log2(e) twice", kLog2E));
  list.push_back(scaled("attn-sm-scale", "scores without log2(e)", 1 / kLog2E));
}

bool has_scales(const LayerCall& call) {
  return call.config.kv_cache_dtype.has_value() && call.k_scale.present();
}

void set_all(Tensor& scales, float (*value)(float)) {
  for (float& scale : scales.as<float>()) scale = value(scale);
}

void add_reading(const char* id, const char* detail, std::function<void(LayerCall&)> reading,
                 Hypotheses& list) {
  AttentionHypothesis hypothesis{id, detail};
  hypothesis.reading = std::move(reading);
  list.push_back(std::move(hypothesis));
}

void add_scales_of_pages(const LayerCall& call, Hypotheses& list) {
  if (!has_scales(call)) return;
  const auto one = [](float) { return 1.0F; };
  const auto inverse = [](float scale) { return 1 / scale; };
  add_reading(
      "scale-ignored-read", "K and V read without their scales",
      [=](LayerCall& reading) {
        set_all(reading.k_scale, one);
        set_all(reading.v_scale, one);
      },
      list);
  add_reading(
      "scale-ignored-read", "K read without its scale",
      [=](LayerCall& reading) { set_all(reading.k_scale, one); }, list);
  add_reading(
      "scale-ignored-read", "V read without its scale",
      [=](LayerCall& reading) { set_all(reading.v_scale, one); }, list);
  add_reading(
      "scale-write-read-asymmetry", "K read with V's scale and V with K's",
      [](LayerCall& reading) { std::swap(reading.k_scale, reading.v_scale); }, list);
  add_reading(
      "scale-inverted", "K and V divided by their scales",
      [=](LayerCall& reading) {
        set_all(reading.k_scale, inverse);
        set_all(reading.v_scale, inverse);
      },
      list);
  if (call.config.scale_granularity != ScaleGranularity::tensor) return;
  const auto k = static_cast<double>(call.k_scale.as<float>()[0]);
  const auto v = static_cast<double>(call.v_scale.as<float>()[0]);
  AttentionHypothesis both = scaled("scale-double-applied", "k_scale and v_scale twice", k);
  both.change.output_factor = v;
  list.push_back(both);
  list.push_back(scaled("scale-double-applied", "k_scale twice", k));
  AttentionHypothesis value{"scale-double-applied", "v_scale twice"};
  value.change.output_factor = v;
  list.push_back(value);
}

// Scales that lie in a call whose caches have none.
void add_scales_of_plain_pages(const LayerCall& call, Hypotheses& list) {
  if (call.config.kv_cache_dtype.has_value() || !call.k_scale.present()) return;
  list.push_back(scaled("scale-applied-to-unquantised", "scores of a 16-bit cache times k_scale",
                        static_cast<double>(call.k_scale.as<float>()[0])));
}

ElementType other_bias(ElementType type) {
  switch (type) {
    case ElementType::float8_e4m3fn:
      return ElementType::float8_e4m3fnuz;
    case ElementType::float8_e4m3fnuz:
      return ElementType::float8_e4m3fn;
    case ElementType::float8_e5m2:
      return ElementType::float8_e5m2fnuz;
    default:
      return ElementType::float8_e5m2;
  }
}

Tensor retyped(const Tensor& tensor, ElementType type) {
  Tensor result = Tensor::allocate(type, tensor.shape());
  std::memcpy(result.bytes().data(), tensor.bytes().data(), tensor.size_bytes());
  return result;
}

void add_formats(const LayerCall& call, Hypotheses& list) {
  if (!call.config.kv_cache_dtype) return;
  const ElementType type = *call.config.kv_cache_dtype;
  const bool fnuz = type == ElementType::float8_e4m3fnuz || type == ElementType::float8_e5m2fnuz;
  AttentionHypothesis hypothesis{fnuz ? "fp8-fnuz-read-as-fn" : "fp8-fn-read-as-fnuz",
                                 "cache read as " + std::string(name_of(other_bias(type)))};
  hypothesis.pool = [](const Tensor& pool, bool /*is_value*/) {
    return retyped(pool, other_bias(pool.type()));
  };
  list.push_back(std::move(hypothesis));
}

// The pool whose contract reading is what a reader with another layout sees in `pool`: element
// (token, d) of a page, at contract(token, d), is what lies at other(token, d).
using PageLayout = std::function<std::int64_t(std::int64_t token, std::int64_t d)>;

Tensor reread(const Tensor& pool, const PageLayout& contract, const PageLayout& other) {
  Tensor result = pool;
  const auto size = static_cast<std::int64_t>(element_size(pool.type()));
  constexpr std::int64_t kPlane = kPageSize * kHeadDim;
  for (std::int64_t plane = 0; plane < pool.size(); plane += kPlane) {
    for (std::int64_t i = 0; i < kPlane; ++i) {
      std::memcpy(result.bytes().data() + (plane + contract(i / kHeadDim, i % kHeadDim)) * size,
                  pool.bytes().data() + (plane + other(i / kHeadDim, i % kHeadDim)) * size,
                  static_cast<std::size_t>(size));
    }
  }
  return result;
}

PageLayout k_order(std::int64_t x) {
  return
      [=](std::int64_t token, std::int64_t d) { return d / x * kPageSize * x + token * x + d % x; };
}

PageLayout v_order(std::int64_t x) {
  return [=](std::int64_t token, std::int64_t d) {
    return token / x * kHeadDim * x + d * x + token % x;
  };
}

void add_layout(const char* id, const char* detail, std::int64_t x, const PageLayout& k,
                const PageLayout& v, Hypotheses& list) {
  AttentionHypothesis hypothesis{id, detail};
  hypothesis.pool = [=](const Tensor& pool, bool is_value) {
    if (is_value) return v ? reread(pool, v_order(x), v) : pool;
    return k ? reread(pool, k_order(x), k) : pool;
  };
  list.push_back(std::move(hypothesis));
}

void add_layouts(const LayerCall& call, Hypotheses& list) {
  // A joined pool holds both planes, and one permutation would move the other's.
  if (call.config.kv_storage == KvStorage::block_contiguous) return;
  const std::int64_t x = call.cache_vector_width();
  const PageLayout flat = [](std::int64_t token, std::int64_t d) { return token * kHeadDim + d; };
  add_layout("kv-shuffle-x-mismatch", "K and V read with the other x", x, k_order(24 - x),
             v_order(24 - x), list);
  add_layout("kv-writer-flat-reader-shuffle", "K and V read as [token][dim]", x, flat, flat, list);
  add_layout("kv-writer-flat-reader-shuffle", "K read as [token][dim]", x, flat, nullptr, list);
  add_layout("kv-v-layout", "V read in K's layout", x, nullptr, k_order(x), list);
  add_layout("kv-v-layout", "V read as [token][dim]", x, nullptr, flat, list);
}

void add_lengths(Hypotheses& list) {
  for (const std::int64_t offset : {-1, 1}) {
    AttentionHypothesis hypothesis{"attn-causal-offset",
                                   offset < 0 ? "the last token left out" : "one token too many"};
    hypothesis.row = [=](AttendedRow& row) { row.length += offset; };
    list.push_back(std::move(hypothesis));
  }
  AttentionHypothesis whole{"attn-causal-offset", "the whole last block attended"};
  whole.row = [](AttendedRow& row) {
    row.length = (row.length + kBlockSize - 1) / kBlockSize * kBlockSize;
  };
  list.push_back(std::move(whole));
  for (const std::int64_t tile : {16, 32, 64, 128}) {
    AttentionHypothesis hypothesis{
        "attn-tail-unmasked",
        "dead tokens of a tile of " + std::to_string(tile) + " in the denominator, with score 0"};
    hypothesis.dead_to_multiple_of = tile;
    list.push_back(std::move(hypothesis));
  }
}

void shift_blocks(std::vector<std::int32_t>& ids, std::size_t first, std::size_t last,
                  std::int64_t by) {
  for (std::size_t i = first; i < std::min(last, ids.size()); ++i) {
    ids[i] = static_cast<std::int32_t>(ids[i] + by);
  }
}

void add_neighbours(const LayerCall& call, Hypotheses& list) {
  const std::int64_t heads = call.config.num_kv_heads;
  const bool joined = call.config.kv_storage == KvStorage::block_contiguous;
  const std::int64_t block = heads * kPagesPerBlock * (joined ? 2 : 1);
  const auto add = [&](const std::string& detail, std::size_t first, std::size_t last,
                       std::int64_t by) {
    AttentionHypothesis hypothesis{"sparse-table-page-expansion", detail};
    hypothesis.row = [=](AttendedRow& row) { shift_blocks(row.folded_ids, first, last, by); };
    list.push_back(std::move(hypothesis));
  };
  const auto all = static_cast<std::size_t>(call.config.topk * kPagesPerBlock);
  for (const std::int64_t by : {-1, 1}) {
    const std::string which = by < 0 ? "before" : "after";
    add("every page replaced by the pool's page " + which + " it", 0, all, by * heads);
    add("every block replaced by the pool's block " + which + " it", 0, all, by * block);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(call.config.topk); ++rank) {
      add("the block of rank " + std::to_string(rank) + " replaced by the pool's block " + which +
              " it",
          rank * kPagesPerBlock, (rank + 1) * kPagesPerBlock, by * block);
    }
  }
}

// Pages of another kv head: (h + by) mod nkv, or always 0.
void add_other_heads(const LayerCall& call, Hypotheses& list) {
  const std::int64_t heads = call.config.num_kv_heads;
  if (heads == 1) return;
  const auto add = [&](const char* detail, std::int64_t times, std::int64_t by) {
    AttentionHypothesis hypothesis{"sparse-table-page-expansion", detail};
    hypothesis.row = [=](AttendedRow& row) {
      for (std::int32_t& id : row.folded_ids) {
        const std::int64_t head = (id % heads * times + by) % heads;
        id = static_cast<std::int32_t>(id / heads * heads + head);
      }
    };
    list.push_back(std::move(hypothesis));
  };
  add("pages of kv head 0 whatever the head", 0, 0);
  add("pages of the kv head after", 1, 1);
  if (heads > 2) add("pages of the kv head before", 1, heads - 1);
}

// A -1 of the selection that is used as an index: the entry before the row's own of the block table.
void add_sentinel(const LayerCall& call, Hypotheses& list) {
  const std::int64_t heads = call.config.num_kv_heads;
  const bool joined = call.config.kv_storage == KvStorage::block_contiguous;
  AttentionHypothesis hypothesis{"topk-sentinel-deref",
                                 "entries of -1 read as the block table's entry before the row's"};
  const auto topk = static_cast<std::size_t>(call.config.topk);
  hypothesis.row = [&call, heads, joined, topk](AttendedRow& row) {
    const std::int64_t request = reference::request_of_row(call, row.row / heads);
    const std::int64_t before = request * call.block_table.dim(1) - 1;
    const auto used = static_cast<std::size_t>((row.length + kBlockSize - 1) / kBlockSize);
    if (before < 0 || used >= topk || row.length == 0) return;
    const std::int64_t block =
        call.block_table.as<std::int32_t>()[static_cast<std::size_t>(before)];
    std::vector<std::int32_t> ids;
    for (std::size_t n = 0; n < topk - used; ++n) {
      for (std::int64_t j = 0; j < kPagesPerBlock; ++j) {
        const std::int64_t page = block * kPagesPerBlock * (joined ? 2 : 1) + j;
        ids.push_back(static_cast<std::int32_t>(page * heads + row.row % heads));
      }
    }
    // Before the row's own blocks, so that its last one stays the partial one.
    row.length += static_cast<std::int64_t>(topk - used) * kBlockSize;
    ids.insert(ids.end(), row.folded_ids.begin(),
               row.folded_ids.begin() + static_cast<std::ptrdiff_t>(used * kPagesPerBlock));
    row.folded_ids = std::move(ids);
  };
  list.push_back(std::move(hypothesis));
}

}  // namespace

std::vector<AttentionHypothesis> attention_hypotheses(const LayerCall& call) {
  Hypotheses list;
  add_score_scales(call, list);
  add_scales_of_pages(call, list);
  add_scales_of_plain_pages(call, list);
  add_formats(call, list);
  add_lengths(list);
  add_other_heads(call, list);
  add_neighbours(call, list);
  add_sentinel(call, list);
  add_layouts(call, list);
  AttentionHypothesis fp8{"attn-fp8-p-range", "P rounded to fp8"};
  fp8.change.weights = WeightRounding{0x1p-4, 0x1p-10};
  fp8.last_resort = true;
  list.push_back(std::move(fp8));
  return list;
}

}  // namespace zerodiff::compare
