#include "compare/insertion_heads.h"

#include <algorithm>

namespace zerodiff::compare {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

ElementType type_of(const LayerCall& call, HeadTensor tensor) {
  switch (tensor) {
    case HeadTensor::q:
      return call.model_dtype();
    case HeadTensor::k:
    case HeadTensor::v:
      return call.kv_cache_type();
    case HeadTensor::index_q:
    case HeadTensor::index_k:
      break;
  }
  return call.index_cache_type();
}

std::int64_t heads_of(const LayerConfig& config, HeadTensor tensor) {
  switch (tensor) {
    case HeadTensor::q:
      return config.num_heads;
    case HeadTensor::k:
    case HeadTensor::v:
      return config.num_kv_heads;
    case HeadTensor::index_q:
      return config.num_index_heads;
    case HeadTensor::index_k:
      break;
  }
  return 1;
}

// Heads of a packed row before the tensor's: [ q | k | v | index_q | index_k ].
std::int64_t heads_before(const LayerConfig& config, HeadTensor tensor) {
  switch (tensor) {
    case HeadTensor::q:
      return 0;
    case HeadTensor::k:
      return config.num_heads;
    case HeadTensor::v:
      return config.num_heads + config.num_kv_heads;
    case HeadTensor::index_q:
      return config.num_heads + 2 * config.num_kv_heads;
    case HeadTensor::index_k:
      break;
  }
  return config.num_heads + 2 * config.num_kv_heads + config.num_index_heads;
}

std::vector<std::int64_t> judged_tokens(const LayerCall& call, const WrittenSlots& written,
                                        HeadTensor tensor) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t token = 0; token < call.config.num_tokens; ++token) {
    bool judged = true;
    if (tensor == HeadTensor::k || tensor == HeadTensor::v) {
      judged = written.kv_slot_of_row[at(token)] >= 0;
    } else if (tensor == HeadTensor::index_k) {
      judged = written.index_slot_of_row[at(token)] >= 0;
    }
    if (judged) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace

InsertionHeads::InsertionHeads(const LayerCall& call, const WrittenSlots& written,
                               HeadTensor tensor)
    : call_(&call),
      written_(&written),
      tensor_(tensor),
      type_(type_of(call, tensor)),
      joined_(call.config.kv_storage == KvStorage::block_contiguous),
      heads_(heads_of(call.config, tensor)),
      first_in_row_(heads_before(call.config, tensor) * kHeadDim),
      tokens_(judged_tokens(call, written, tensor)),
      layout_(tensor == HeadTensor::v ? reference::v_layout(call) : reference::k_layout(call)),
      scale_(call, tensor == HeadTensor::v ? call.v_scale : call.k_scale) {}

std::string_view InsertionHeads::output() const {
  switch (tensor_) {
    case HeadTensor::q:
      return "q";
    case HeadTensor::index_q:
      return "index_q";
    case HeadTensor::k:
      return joined_ ? "kv_cache" : "k_cache";
    case HeadTensor::v:
      return joined_ ? "kv_cache" : "v_cache";
    case HeadTensor::index_k:
      break;
  }
  return "index_cache";
}

const Tensor& InsertionHeads::tensor_of(const Outputs& outputs) const {
  const auto field = std::ranges::find(kOutputFields, output(), &OutputField::name);
  return outputs.*field->tensor;
}

std::span<const std::uint16_t, kHeadDim> InsertionHeads::input(std::int64_t i) const {
  const std::int64_t start =
      token(i) * call_->config.row_elements() + first_in_row_ + head(i) * kHeadDim;
  return call_->qkv.as<std::uint16_t>().subspan(at(start)).first<kHeadDim>();
}

const Tensor& InsertionHeads::weight() const {
  static const Tensor kNone;
  switch (tensor_) {
    case HeadTensor::q:
      return call_->q_norm_weight;
    case HeadTensor::index_q:
      return call_->index_q_norm_weight;
    case HeadTensor::k:
      return call_->k_norm_weight;
    case HeadTensor::index_k:
      return call_->index_k_norm_weight;
    case HeadTensor::v:
      break;
  }
  return kNone;
}

float InsertionHeads::scale(std::int64_t i) const {
  return paged() ? scale_.at(head(i), slot(i)) : 1.0F;
}

std::int64_t InsertionHeads::slot(std::int64_t i) const {
  const auto& slots = paged() ? written_->kv_slot_of_row : written_->index_slot_of_row;
  return slots[at(token(i))];
}

void InsertionHeads::read(const Tensor& output, std::int64_t i, HeadBits& bits) const {
  if (is_fp8(type_)) {
    read_as<std::uint8_t>(output, i, bits);
  } else {
    read_as<std::uint16_t>(output, i, bits);
  }
}

template <class T>
void InsertionHeads::read_as(const Tensor& output, std::int64_t i, HeadBits& bits) const {
  const T* const elements = output.as<T>().data();
  if (!paged()) {
    const std::int64_t first = tensor_ == HeadTensor::index_k
                                   ? slot(i) * kHeadDim
                                   : (token(i) * heads_ + head(i)) * kHeadDim;
    std::copy_n(elements + first, kHeadDim, bits.begin());
    return;
  }
  const std::int64_t mapped = joined_ ? reference::rebase_slot(slot(i)) : slot(i);
  const reference::PagePlace place = reference::page_of(mapped);
  const T* const first = elements + layout_.element(place.page, head(i), place.offset, 0);
  const std::int64_t x = layout_.vector_width;
  if (tensor_ == HeadTensor::v) {
    for (std::int64_t d = 0; d < kHeadDim; ++d) bits[at(d)] = first[d * x];
    return;
  }
  for (std::int64_t d = 0; d < kHeadDim; d += x) {
    std::copy_n(first + d * kPageSize, x, bits.begin() + d);
  }
}

std::vector<HeadTensor> insertion_tensors(const LayerCall& call) {
  if (call.config.skip_index_branch) return {HeadTensor::q, HeadTensor::k, HeadTensor::v};
  return {HeadTensor::q, HeadTensor::index_q, HeadTensor::k, HeadTensor::v, HeadTensor::index_k};
}

}  // namespace zerodiff::compare
