// Tensors of given bits, for tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "fixtures/tensor.h"

namespace zerodiff::compare {

inline constexpr std::array<ElementType, 9> kAllTypes{
    ElementType::bfloat16,        ElementType::float16,     ElementType::float32,
    ElementType::int32,           ElementType::int64,       ElementType::float8_e4m3fn,
    ElementType::float8_e4m3fnuz, ElementType::float8_e5m2, ElementType::float8_e5m2fnuz};

inline void set_bits(Tensor& tensor, std::int64_t index, std::uint64_t bits) {
  const std::size_t size = element_size(tensor.type());
  std::memcpy(tensor.bytes().data() + static_cast<std::size_t>(index) * size, &bits, size);
}

inline std::uint64_t get_bits(const Tensor& tensor, std::int64_t index) {
  const std::size_t size = element_size(tensor.type());
  std::uint64_t bits = 0;
  std::memcpy(&bits, tensor.bytes().data() + static_cast<std::size_t>(index) * size, size);
  return bits;
}

inline Tensor tensor_of(ElementType type, const std::vector<std::uint64_t>& bits) {
  Tensor tensor = Tensor::allocate(type, {static_cast<std::int64_t>(bits.size())});
  for (std::size_t i = 0; i < bits.size(); ++i) {
    set_bits(tensor, static_cast<std::int64_t>(i), bits[i]);
  }
  return tensor;
}

}  // namespace zerodiff::compare
