#include "reference/materialise.h"

#include <vector>

#include "reference/number_formats.h"
#include "reference/scale_contract.h"

namespace zerodiff::reference {
namespace {

template <class T>
std::span<T> row_of(Tensor& tensor, std::int64_t t) {
  const auto elements = static_cast<std::size_t>(tensor.dim(1));
  return tensor.as<T>().subspan(static_cast<std::size_t>(t) * elements, elements);
}

}  // namespace

QRows::QRows(const LayerCall& call, const Choices& choices, const QkNormRope& stage)
    : stage_(&stage),
      choices_(choices),
      eps_(call.config.rms_norm_eps),
      one_plus_weight_(split_head(stage.one_plus_q_weight())),
      in_words_(call.model_dtype() == ElementType::bfloat16 && fits_bfloat16_heads(choices)) {}

void QRows::materialise(std::int64_t t, std::vector<float>& scratch, Tensor& q) const {
  const auto out = row_of<std::uint16_t>(q, t);
  if (in_words_) {
    rotate_bfloat16_heads(stage_->q_bits(t), one_plus_weight_, split_rope_row(stage_->rope_row(t)),
                          eps_, choices_, out);
    return;
  }
  stage_->rotate_q(t, scratch);
  to_model_dtype(q.type(), scratch, out);
}

void QRows::prefetch(std::int64_t t) const {
  constexpr std::size_t kLine = 64 / sizeof(std::uint16_t);
  const auto in = stage_->q_bits(t);
  for (std::size_t i = 0; i < in.size(); i += kLine) __builtin_prefetch(in.data() + i);
}

void materialise_index_q(const LayerCall& call, const Choices& choices, const RotatedRow& row,
                         std::int64_t t, Tensor& index_q) {
  if (!is_fp8(index_q.type())) {
    to_model_dtype(index_q.type(), row.index_q, row_of<std::uint16_t>(index_q, t));
    return;
  }
  std::vector<float> values = row.index_q;
  if (index_q_source(call.config, choices) == IndexQFrom::model_dtype) {
    round_to_model_dtype(call.model_dtype(), values);
  }
  encode_fp8(index_q.type(), values, Overflow::saturate, row_of<std::uint8_t>(index_q, t));
}

}  // namespace zerodiff::reference
