#include "compare/head_contract.h"

#include <algorithm>
#include <limits>

#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

std::size_t at_index(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

bool is_kv(Branch branch) {
  return branch == Branch::k || branch == Branch::v;
}

bool is_query(Branch branch) {
  return branch == Branch::q || branch == Branch::index_q;
}

}  // namespace

const char* name_of(Branch branch) {
  constexpr std::array<const char*, 5> kNames{"q", "k", "v", "index_q", "index_k"};
  return kNames[static_cast<std::size_t>(branch)];
}

HeadContract::HeadContract(const LayerCall& call, const reference::Choices& choices)
    : call_(&call),
      choices_(choices),
      written_(written_slots(call)),
      rope_table_(call),
      k_scale_(call, call.k_scale),
      v_scale_(call, call.v_scale),
      k_layout_(reference::k_layout(call)),
      v_layout_(reference::v_layout(call)) {
  weights_ = {decode_weight(call.q_norm_weight), decode_weight(call.k_norm_weight), Head{},
              decode_weight(call.index_q_norm_weight), decode_weight(call.index_k_norm_weight)};
}

Head HeadContract::decode_weight(const Tensor& tensor) const {
  Head weight{};
  if (tensor.present()) {
    reference::from_model_dtype(tensor.type(), tensor.as<std::uint16_t>(), weight);
  }
  return weight;
}

std::int64_t HeadContract::heads(Branch branch) const {
  const LayerConfig& config = call_->config;
  switch (branch) {
    case Branch::q:
      return config.num_heads;
    case Branch::k:
    case Branch::v:
      return config.num_kv_heads;
    case Branch::index_q:
      return config.num_index_heads;
    case Branch::index_k:
      return 1;
  }
  return 0;
}

std::int64_t HeadContract::heads_before(Branch branch) const {
  std::int64_t before = 0;
  for (const Branch earlier : kBranches) {
    if (earlier == branch) break;
    before += heads(earlier);
  }
  return before;
}

std::int64_t HeadContract::position(std::int64_t token) const {
  return call_->positions.as<std::int64_t>()[at_index(token)];
}

std::int64_t HeadContract::first_element(const HeadAt& at) const {
  return at.token * call_->config.row_elements() + (heads_before(at.branch) + at.head) * kHeadDim;
}

HeadCodes HeadContract::read_bits(std::int64_t first) const {
  const auto qkv = call_->qkv.as<std::uint16_t>();
  HeadCodes bits;
  for (std::int64_t d = 0; d < kHeadDim; ++d) {
    const std::int64_t element = first + d;
    const bool inside = element >= 0 && element < call_->qkv.size();
    bits[at_index(d)] = inside ? qkv[at_index(element)] : 0x7FFFU;  // a NaN in both model dtypes
  }
  return bits;
}

Head HeadContract::read(std::int64_t first) const {
  const HeadCodes bits = read_bits(first);
  Head x;
  for (std::size_t d = 0; d < x.size(); ++d) {
    x[d] = reference::from_model_dtype(call_->model_dtype(), static_cast<std::uint16_t>(bits[d]));
  }
  return x;
}

const Head& HeadContract::weight(Branch branch) const {
  return weights_[static_cast<std::size_t>(branch)];
}

float HeadContract::norm_factor(const Head& x) const {
  return reference::reciprocal_rms(reference::sum_of_squares(x, reference::SumsqOrder::lane_sum128),
                                   call_->config.rms_norm_eps, 0);
}

Head HeadContract::norm(const HeadAt& at, const Head& x) const {
  if (at.branch == Branch::v) return x;
  Head factors = weight(at.branch);
  for (float& factor : factors) factor = 1.0F + factor;
  Head y = x;
  reference::apply_norm(y, norm_factor(x), factors);
  if (choices_.norm_materialised) reference::round_to_model_dtype(call_->model_dtype(), y);
  return y;
}

std::optional<reference::RopeRow> HeadContract::rope_row(std::int64_t position) const {
  const std::int64_t wanted = std::max<std::int64_t>(position, 0);
  if (call_->cos_sin_rows.present()) {
    const auto rows = call_->cos_sin_rows.as<std::int64_t>();
    const bool found = std::binary_search(rows.begin(), rows.end(), wanted);
    if (!found && position >= 0) return std::nullopt;
  } else if (wanted >= call_->cos_sin_cache.dim(0)) {
    return std::nullopt;
  }
  return rope_table_.row(position);
}

Head HeadContract::rope(const HeadAt& at, const Head& y) const {
  if (at.branch == Branch::v) return y;
  Head z = y;
  reference::apply_rope(z, rope_table_.row(position(at.token)), choices_.rope_contraction);
  return z;
}

ElementType HeadContract::stored_type(Branch branch) const {
  if (branch == Branch::q) return call_->model_dtype();
  return is_kv(branch) ? call_->kv_cache_type() : call_->index_cache_type();
}

float HeadContract::scale(const HeadAt& at) const {
  if (!is_kv(at.branch)) return 1;
  const std::int64_t slot = written_.kv_slot_of_row[at_index(at.token)];
  const auto& scales = at.branch == Branch::k ? k_scale_ : v_scale_;
  return scales.at(at.head, std::max<std::int64_t>(slot, 0));
}

bool HeadContract::rounds_before_code(Branch branch) const {
  if (branch == Branch::index_q) {
    return reference::index_q_source(call_->config, choices_) == IndexQFrom::model_dtype;
  }
  return reference::scale_contract(call_->config, choices_).quantize_from ==
         QuantizeFrom::model_dtype;
}

Head HeadContract::to_quantise(Branch branch, const Head& z) const {
  Head values = z;
  if (branch != Branch::v && rounds_before_code(branch)) {
    reference::round_to_model_dtype(call_->model_dtype(), values);
  }
  return values;
}

reference::ScaleContract HeadContract::code_contract(Branch branch) const {
  reference::ScaleContract contract = reference::scale_contract(call_->config, choices_);
  if (!is_kv(branch)) contract.overflow = Overflow::saturate;
  return contract;
}

HeadCodes HeadContract::encode(const HeadAt& at, const Head& z) const {
  const ElementType type = stored_type(at.branch);
  HeadCodes bits;
  if (!is_fp8(type)) {
    std::array<std::uint16_t, kHeadDim> rounded;
    reference::to_model_dtype(type, z, rounded);
    std::copy(rounded.begin(), rounded.end(), bits.begin());
    return bits;
  }
  std::array<std::uint8_t, kHeadDim> codes;
  reference::quantize(type, to_quantise(at.branch, z), scale(at), code_contract(at.branch), codes);
  std::copy(codes.begin(), codes.end(), bits.begin());
  return bits;
}

std::int64_t HeadContract::stored_elements(Branch branch) const {
  if (is_query(branch)) return call_->capacity() * heads(branch) * kHeadDim;
  if (branch == Branch::index_k) return call_->num_slots() * kHeadDim;
  const bool joined = call_->config.kv_storage == KvStorage::block_contiguous;
  return call_->num_slots() * heads(branch) * kHeadDim * (joined ? 2 : 1);
}

std::int64_t HeadContract::place(const HeadAt& at, std::int64_t dim) const {
  if (is_query(at.branch)) return (at.token * heads(at.branch) + at.head) * kHeadDim + dim;
  const std::int64_t slot = mapped_slot(at.branch, at.token);
  if (slot < 0) return -1;
  if (at.branch == Branch::index_k) return slot * kHeadDim + dim;
  const reference::PagePlace page = reference::page_of(slot);
  return layout(at.branch).element(page.page, at.head, page.offset, dim);
}

const reference::PagedLayout& HeadContract::layout(Branch branch) const {
  return branch == Branch::v ? v_layout_ : k_layout_;
}

std::int64_t HeadContract::mapped_slot(Branch branch, std::int64_t token) const {
  if (branch == Branch::index_k) return written_.index_slot_of_row[at_index(token)];
  const std::int64_t slot = written_.kv_slot_of_row[at_index(token)];
  return call_->config.kv_storage == KvStorage::block_contiguous ? reference::rebase_slot(slot)
                                                                 : slot;
}

}  // namespace zerodiff::compare
