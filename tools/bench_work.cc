#include "tools/bench_work.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <utility>

namespace zerodiff::tools {
namespace {

using Index = std::int64_t;

constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kStages{
    {{"qk_norm_rope", "qk_norm_rope"},
     {"slot_mapping", "slot_mapping"},
     {"reshape_and_cache", "reshape_and_cache"},
     {"index_cache_insert", "index_cache_insert"},
     {"fused_insert", "insertion"},
     {"index_score", "index_score"},
     {"index_topk", "index_topk"},
     {"sparse_block_table", "sparse_block_table"},
     {"fused_topk", "index_topk+sparse_block_table"},
     {"sparse_attention", "sparse_attention"},
     {"attention_merge", "sparse_attention"},
     {"fused_attention", "sparse_attention"}}};

std::string stage_of(const std::string& kernel) {
  for (const auto& [stem, stage] : kStages) {
    if (kernel.starts_with(stem)) return std::string(stage);
  }
  return kernel;
}

Index bytes_of(ElementType type) {
  return static_cast<Index>(element_size(type));
}

Index stored_rows(const Tensor& slots) {
  if (!slots.present()) return 0;
  return std::ranges::count_if(slots.as<Index>(), [](Index slot) { return slot >= 0; });
}

// Sizes that all stages are made of, in bytes.
class Sizes {
 public:
  explicit Sizes(const LayerCall& call) : call_(call), config_(call.config) {}

  Index rows() const { return call_.capacity(); }
  Index index_heads() const { return config_.skip_index_branch ? 0 : config_.num_index_heads; }
  Index index_k_heads() const { return config_.skip_index_branch ? 0 : 1; }
  Index packed(Index heads) const {
    return rows() * heads * kHeadDim * bytes_of(call_.model_dtype());
  }
  Index rope_rows() const { return rows() * config_.rotary_dim * bytes_of(call_.model_dtype()); }
  Index q() const { return packed(config_.num_heads); }
  Index index_q() const {
    return rows() * index_heads() * kHeadDim * bytes_of(call_.index_cache_type());
  }
  Index kv_stored() const {
    return stored_rows(call_.slot_mapping) * 2 * config_.num_kv_heads * kHeadDim *
           bytes_of(call_.kv_cache_type());
  }
  Index index_stored() const {
    if (config_.skip_index_branch) return 0;
    return stored_rows(call_.index_slot_mapping) * kHeadDim * bytes_of(call_.index_cache_type());
  }
  // z of k and index_k, where a cache is quantised from it.
  Index side_rows() const {
    const bool quantises = config_.kv_cache_dtype || config_.index_cache_dtype;
    if (!quantises || config_.quantize_from != QuantizeFrom::fp32) return 0;
    return rows() * (config_.num_kv_heads + index_k_heads()) * kHeadDim * 4;
  }
  Index slots() const { return rows() * 8; }

 private:
  const LayerCall& call_;
  const LayerConfig& config_;
};

StageWork score_work(const LayerCall& call, const Sizes& sizes) {
  const auto positions = call.positions.as<Index>();
  const auto start = call.query_start_loc.as<std::int32_t>();
  const Index heads = call.config.num_kv_heads;
  StageWork work;
  work.bytes = sizes.index_q();
  for (std::size_t r = 0; r + 1 < start.size(); ++r) {
    Index longest = 0;
    for (Index t = start[r]; t < start[r + 1]; ++t) {
      const Index seen = positions[static_cast<std::size_t>(t)] + 1;
      longest = std::max(longest, seen);
      work.fmas += std::max<Index>(seen, 0) * heads * kHeadDim;
      work.bytes += (seen + kBlockSize - 1) / kBlockSize * heads * 4;  // scores out
    }
    work.bytes += longest * kHeadDim * bytes_of(call.index_cache_type());
  }
  return work;
}

Index selection_bytes(const LayerCall& call) {
  return call.config.num_tokens * call.config.num_kv_heads * call.config.topk * 4;
}

Index score_bytes(const LayerCall& call) {
  Index blocks = 0;
  for (const Index position : call.positions.as<Index>()) {
    if (position >= 0) blocks += position / kBlockSize + 1;
  }
  return blocks * call.config.num_kv_heads * 4;
}

Index table_bytes(const LayerCall& call) {
  return selection_bytes(call) * kPagesPerBlock + call.config.num_tokens * 4;
}

StageWork attention_work(const LayerCall& call, const Outputs& reference) {
  const auto lengths = reference.sparse_context_lens.as<std::int32_t>();
  const Index tokens = std::accumulate(lengths.begin(), lengths.end(), Index{0});
  const Index group = call.config.num_heads / call.config.num_kv_heads;
  StageWork work;
  work.bytes = tokens * 2 * kHeadDim * bytes_of(call.kv_cache_type()) + table_bytes(call) +
               2 * static_cast<Index>(reference.attn_output.size_bytes());
  work.fmas = tokens * group * 2 * kHeadDim;
  return work;
}

}  // namespace

std::vector<StageRange> stage_ranges(const device::LaunchList& list) {
  std::vector<StageRange> ranges;
  for (std::size_t i = 0; i < list.launches().size(); ++i) {
    const std::string stage = stage_of(list.launches()[i].kernel);
    if (ranges.empty() || ranges.back().stage != stage) ranges.push_back({stage, i, i});
    ranges.back().last = i + 1;
  }
  return ranges;
}

StageWork work_of(const std::string& stage, const LayerCall& call, const Outputs& reference) {
  const Sizes sizes(call);
  const Index nq = call.config.num_heads;
  const Index nkv = call.config.num_kv_heads;
  const Index branch = sizes.index_heads() + sizes.index_k_heads();
  const Index written_back = sizes.packed(nkv + sizes.index_k_heads()) + sizes.side_rows();
  if (stage == "qk_norm_rope") {
    return {sizes.packed(nq + nkv + branch) + sizes.rope_rows() + sizes.q() + sizes.index_q() +
                written_back,
            0};
  }
  if (stage == "slot_mapping") return {3 * sizes.slots(), 0};
  if (stage == "reshape_and_cache") {
    return {sizes.packed(2 * nkv) + sizes.slots() + sizes.kv_stored(), 0};
  }
  if (stage == "index_cache_insert") {
    return {sizes.packed(1) + sizes.slots() + sizes.index_stored(), 0};
  }
  if (stage == "insertion") {
    return {sizes.packed(nq + 2 * nkv + branch) + sizes.rope_rows() + sizes.q() + sizes.index_q() +
                sizes.kv_stored() + sizes.index_stored(),
            0};
  }
  if (stage == "index_score") return score_work(call, sizes);
  if (stage == "index_topk") return {score_bytes(call) + selection_bytes(call), 0};
  if (stage == "sparse_block_table") return {selection_bytes(call) + table_bytes(call), 0};
  if (stage == "index_topk+sparse_block_table") {
    return {score_bytes(call) + selection_bytes(call) + table_bytes(call), 0};
  }
  if (stage == "sparse_attention") return attention_work(call, reference);
  return {};
}

}  // namespace zerodiff::tools
