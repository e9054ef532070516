// From the values of a head to the bits that an output holds, under given choices.
#pragma once

#include <cstdint>
#include <span>

#include "compare/insertion_heads.h"
#include "reference/choices.h"
#include "reference/scale_contract.h"

namespace zerodiff::compare {

// Which of the scale choices show in a tensor: only fp8 codes show any.
struct StorageChoices {
  bool quantize_from = false;
  bool scale_op = false;  // and overflow
  bool index_q_from = false;
};
StorageChoices storage_choices(HeadTensor tensor, ElementType type);

// Materialisation and quantisation of one tensor (numerics.md sections 5 and 6). Each element
// depends on its own value alone, and not decreasingly so until the value overflows.
class HeadStorage {
 public:
  HeadStorage(const LayerCall& call, const InsertionHeads& heads,
              const reference::Choices& choices);

  // The bits of z, or of V's own values; `values` are used up.
  void store(std::span<float> values, float scale, std::span<std::uint16_t> bits) const;

 private:
  void store_codes(std::span<float> values, float scale, std::span<std::uint16_t> bits) const;

  ElementType model_dtype_;
  ElementType type_;
  bool index_;         // unit scale, saturating
  bool rounds_first_;  // to the model dtype, before quantisation
  reference::ScaleContract contract_;
};

}  // namespace zerodiff::compare
