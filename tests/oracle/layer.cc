#include "tests/oracle/layer.h"

#include "tests/oracle/cache_insertion.h"
#include "tests/oracle/qk_norm_rope.h"
#include "tests/oracle/slot_mapping.h"

namespace zerodiff::oracle {
namespace {

Outputs prepare(const LayerCall& call) {
  Outputs outputs;
  const std::int64_t rows = call.qkv.dim(0);
  outputs.q = Tensor::zeros(call.model_dtype(), {rows, call.config.num_heads * 128});
  if (call.config.kv_storage == KvStorage::separate) {
    outputs.k_cache = call.k_cache;
    outputs.v_cache = call.v_cache;
  } else {
    outputs.kv_cache = call.kv_cache;
  }
  if (!call.config.skip_index_branch) {
    outputs.index_q =
        Tensor::zeros(call.index_cache_type(), {rows, call.config.num_index_heads * 128});
    outputs.index_cache = call.index_cache;
  }
  return outputs;
}

// One row of the batch; `first` moves over its heads in the order of section 2.
class Row {
 public:
  Row(const LayerCall& call, const Choices& choices, std::int64_t row)
      : call_(call),
        choices_(choices),
        row_(row),
        first_(row * call.config.row_elements()),
        position_(call.positions.as<std::int64_t>()[static_cast<std::size_t>(row)]),
        slots_(slots_of_row(call, row)) {}

  void run(Outputs& outputs) {
    const std::int64_t nq = call_.config.num_heads;
    const std::int64_t nkv = call_.config.num_kv_heads;
    const std::int64_t niq = call_.config.num_index_heads;
    for (std::int64_t h = 0; h < nq; ++h) {
      write_q(call_, next_rotated(call_.q_norm_weight), (row_ * nq + h) * 128, outputs);
    }
    for (std::int64_t h = 0; h < nkv; ++h) {
      store_k(call_, choices_, slots_, h, next_rotated(call_.k_norm_weight), outputs);
    }
    for (std::int64_t h = 0; h < nkv; ++h, first_ += 128) {
      store_v(call_, choices_, slots_, h, first_, outputs);
    }
    if (call_.config.skip_index_branch) return;
    for (std::int64_t h = 0; h < niq; ++h) {
      write_index_q(call_, choices_, next_rotated(call_.index_q_norm_weight),
                    (row_ * niq + h) * 128, outputs);
    }
    store_index_k(call_, choices_, slots_, next_rotated(call_.index_k_norm_weight), outputs);
  }

 private:
  Head next_rotated(const Tensor& weight) {
    const Head x = read_head(call_.qkv, first_);
    first_ += 128;
    return rope(call_, choices_, qk_norm(call_, choices_, x, read_head(weight, 0)), position_);
  }

  const LayerCall& call_;
  const Choices& choices_;
  std::int64_t row_;
  std::int64_t first_;
  std::int64_t position_;
  RowSlots slots_;
};

}  // namespace

Outputs run_insertion(const LayerCall& call, const Choices& choices) {
  Outputs outputs = prepare(call);
  for (std::int64_t row = 0; row < call.qkv.dim(0); ++row) Row(call, choices, row).run(outputs);
  return outputs;
}

}  // namespace zerodiff::oracle
