// The heads that the insertion stages of a call make: 128 values of one token that share one input,
// one norm factor and one place in an output.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "compare/written_elements.h"
#include "fixtures/layer_call.h"
#include "reference/cache_layout.h"
#include "reference/scale_contract.h"

namespace zerodiff::compare {

enum class HeadTensor : std::uint8_t { q, index_q, k, v, index_k };

// The bits of a head's elements in dim order, zero-extended.
using HeadBits = std::array<std::uint16_t, kHeadDim>;

// The heads of one tensor that are judged: of q and index_q those of scheduled rows, of K, V and
// index K those with a slot. Ordered by token, then head.
class InsertionHeads {
 public:
  // Both must outlive it.
  InsertionHeads(const LayerCall& call, const WrittenSlots& written, HeadTensor tensor);

  HeadTensor tensor() const { return tensor_; }
  // Name of the output that holds them, "k_cache".
  std::string_view output() const;
  const Tensor& tensor_of(const Outputs& outputs) const;
  ElementType type() const { return type_; }

  std::int64_t count() const { return static_cast<std::int64_t>(tokens_.size()) * heads_; }
  std::int64_t token(std::int64_t i) const { return tokens_[static_cast<std::size_t>(i / heads_)]; }
  std::int64_t head(std::int64_t i) const { return i % heads_; }

  // [128] bits of the model dtype, inside call.qkv.
  std::span<const std::uint16_t, kHeadDim> input(std::int64_t i) const;
  // The norm weight of the tensor's branch; absent for V.
  const Tensor& weight() const;
  // The dequantisation scale that the head is written with; 1 where none applies.
  float scale(std::int64_t i) const;

  void read(const Tensor& output, std::int64_t i, HeadBits& bits) const;

 private:
  template <class T>
  void read_as(const Tensor& output, std::int64_t i, HeadBits& bits) const;
  std::int64_t slot(std::int64_t i) const;
  bool paged() const { return tensor_ == HeadTensor::k || tensor_ == HeadTensor::v; }

  const LayerCall* call_;
  const WrittenSlots* written_;
  HeadTensor tensor_;
  ElementType type_;
  bool joined_;
  std::int64_t heads_ = 1;         // of a token
  std::int64_t first_in_row_ = 0;  // element of the packed row where they begin
  std::vector<std::int64_t> tokens_;
  reference::PagedLayout layout_;
  reference::ScaleReader scale_;
};

// The tensors that a call makes, in reading order; without the index branch q, k and v.
std::vector<HeadTensor> insertion_tensors(const LayerCall& call);

}  // namespace zerodiff::compare
