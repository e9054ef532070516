#include "device/paths/attention_stages.h"

#include <memory>
#include <string>
#include <utility>

#include "device/paths/attention_buffers.h"
#include "device/paths/attention_inputs.h"
#include "device/paths/attention_launches.h"

namespace zerodiff::device {
namespace {

// With skip_index_branch the first stage that there is.
AttentionOptions own_stages(const LayerCall& call, AttentionOptions options) {
  if (call.config.skip_index_branch) {
    options.first_stage = std::max(options.first_stage, AttentionStage::sparse_block_table);
  }
  return options;
}

Tensor scalar_tensor(std::int64_t value) {
  Tensor tensor = Tensor::allocate(ElementType::int32, {1});
  tensor.as<std::int32_t>()[0] = static_cast<std::int32_t>(value);
  return tensor;
}

void add_index_inputs(LaunchList& list, const LayerCall& call, const Outputs& inserted,
                      AttentionStage first) {
  const std::int64_t heads = call.config.num_kv_heads;
  if (first == AttentionStage::index_score) {
    list.add_input("index_q", inserted.index_q);
    list.add_input("index_cache", inserted.index_cache);
  } else if (first == AttentionStage::index_topk) {
    list.add_input("index_score", with_capacity(inserted.index_score, heads, call.capacity()));
  } else if (first == AttentionStage::sparse_block_table && !call.config.skip_index_branch) {
    list.add_input("topk_index", with_capacity(inserted.topk_index, heads, call.capacity()));
  } else if (first == AttentionStage::sparse_attention) {
    list.add_input("sparse_block_table", inserted.sparse_block_table);
    list.add_input("sparse_context_lens", inserted.sparse_context_lens);
  }
}

void add_attention_inputs(LaunchList& list, const LayerCall& call, const Outputs& inserted) {
  list.add_input("q", inserted.q);
  if (call.config.kv_storage == KvStorage::separate) {
    list.add_input("k_cache", inserted.k_cache);
    list.add_input("v_cache", inserted.v_cache);
  } else {
    list.add_input("kv_cache", inserted.kv_cache);
  }
  if (!call.config.kv_cache_dtype) return;
  list.add_input("k_scale", call.k_scale);
  list.add_input("v_scale", call.v_scale);
}

}  // namespace

PathRun run_attention_stages(const LayerCall& call, const Outputs& inserted, PathKind kind,
                             Backend& backend, const AttentionOptions& wanted) {
  PathRun run;
  const AttentionOptions options = own_stages(call, wanted);
  if (!has_selection(call) || options.last_stage < options.first_stage) return run;
  check_attention_inputs(call, inserted, options);
  PathLaunches launches;
  launches.list.add_input("num_tokens", scalar_tensor(call.config.num_tokens));
  add_index_inputs(launches.list, call, inserted, options.first_stage);
  if (runs(options, AttentionStage::sparse_attention)) {
    add_attention_inputs(launches.list, call, inserted);
  }
  append_attention(launches, call, kind, options);
  const std::unique_ptr<ResidentLaunchList> resident = backend.allocate(launches.list);
  resident->upload();
  run.report = resident->run();
  if (run.report.ok()) run.outputs = download_outputs(launches, *resident);
  return run;
}

}  // namespace zerodiff::device
