#include "compare/head_storage.h"

#include <algorithm>
#include <array>

#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

bool rounds_first(const LayerCall& call, HeadTensor tensor, const reference::Choices& choices) {
  if (tensor == HeadTensor::v) return false;  // its values are of the model dtype already
  if (tensor == HeadTensor::index_q) {
    return reference::index_q_source(call.config, choices) == IndexQFrom::model_dtype;
  }
  return reference::scale_contract(call.config, choices).quantize_from == QuantizeFrom::model_dtype;
}

}  // namespace

StorageChoices storage_choices(HeadTensor tensor, ElementType type) {
  if (!is_fp8(type)) return {};
  StorageChoices shown;
  shown.quantize_from = tensor == HeadTensor::k || tensor == HeadTensor::index_k;
  shown.scale_op = tensor == HeadTensor::k || tensor == HeadTensor::v;
  shown.index_q_from = tensor == HeadTensor::index_q;
  return shown;
}

HeadStorage::HeadStorage(const LayerCall& call, const InsertionHeads& heads,
                         const reference::Choices& choices)
    : model_dtype_(call.model_dtype()),
      type_(heads.type()),
      index_(heads.tensor() == HeadTensor::index_q || heads.tensor() == HeadTensor::index_k),
      rounds_first_(rounds_first(call, heads.tensor(), choices)),
      contract_(reference::scale_contract(call.config, choices)) {}

void HeadStorage::store(std::span<float> values, float scale, std::span<std::uint16_t> bits) const {
  if (is_fp8(type_)) {
    store_codes(values, scale, bits);
  } else {
    reference::to_model_dtype(type_, values, bits);
  }
}

void HeadStorage::store_codes(std::span<float> values, float scale,
                              std::span<std::uint16_t> bits) const {
  std::array<std::uint8_t, kHeadDim> storage;
  const auto codes = std::span(storage).first(values.size());
  if (rounds_first_) reference::round_to_model_dtype(model_dtype_, values);
  if (index_) {
    reference::encode_fp8(type_, values, Overflow::saturate, codes);
  } else {
    reference::quantize(type_, values, scale, contract_, codes);
  }
  std::ranges::copy(codes, bits.begin());
}

}  // namespace zerodiff::compare
