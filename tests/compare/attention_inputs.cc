#include "tests/compare/attention_inputs.h"

#include <algorithm>
#include <random>

#include "reference/layer.h"
#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

void fill_normal(std::mt19937_64& random, float deviation, Tensor& tensor) {
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(static_cast<std::size_t>(tensor.size()));
  for (float& value : values) value = normal(random);
  if (is_fp8(tensor.type())) {
    reference::encode_fp8(tensor.type(), values, Overflow::saturate, tensor.as<std::uint8_t>());
  } else {
    reference::to_model_dtype(tensor.type(), values, tensor.as<std::uint16_t>());
  }
}

}  // namespace

AttentionCase random_case(const test::CallKind& kind, std::uint64_t seed,
                          const std::vector<std::int64_t>& positions, std::int64_t heads,
                          std::int64_t kv_heads, float sharpness, std::int64_t topk) {
  test::CallShape shape;
  shape.config = test::plain_config(heads, kv_heads);
  shape.config.topk = topk;
  shape.kind = kind;
  shape.positions = positions;
  shape.pool_blocks = *std::max_element(positions.begin(), positions.end()) / kBlockSize + 2;
  AttentionCase attention{test::decode_call(shape), {}};
  LayerCall& call = attention.call;
  attention.outputs = test::zero_insertion(call);
  std::mt19937_64 random(seed);
  fill_normal(random, sharpness, attention.outputs.q);
  for (Tensor Outputs::*field : {&Outputs::index_q, &Outputs::k_cache, &Outputs::v_cache,
                                 &Outputs::kv_cache, &Outputs::index_cache}) {
    if ((attention.outputs.*field).present()) fill_normal(random, 1, attention.outputs.*field);
  }
  for (Tensor* scales : {&call.k_scale, &call.v_scale}) {
    if (!scales->present()) continue;
    for (float& scale : scales->as<float>()) {
      scale = static_cast<float>(std::uniform_real_distribution<double>(0.5, 1.5)(random));
    }
  }
  run_stages(attention);
  return attention;
}

void run_stages(AttentionCase& attention) {
  reference::run_after_insertion(attention.call, attention.outputs,
                                 {.threads = 1, .keep_index_score = true});
}

}  // namespace zerodiff::compare
