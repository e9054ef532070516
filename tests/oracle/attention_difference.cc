#include "tests/oracle/attention_difference.h"

#include <bit>
#include <cmath>
#include <sstream>

#include "tests/oracle/number_formats.h"

namespace zerodiff::oracle {
namespace {

std::uint32_t bits_at(const Tensor& tensor, std::size_t element) {
  switch (tensor.type()) {
    case ElementType::int32:
      return static_cast<std::uint32_t>(tensor.as<std::int32_t>()[element]);
    case ElementType::float32:
      return std::bit_cast<std::uint32_t>(tensor.as<float>()[element]);
    default:
      return element_size(tensor.type()) == 1 ? tensor.as<std::uint8_t>()[element]
                                              : tensor.as<std::uint16_t>()[element];
  }
}

double value_of(ElementType type, std::uint32_t bits) {
  if (type == ElementType::int32) return static_cast<std::int32_t>(bits);
  if (type == ElementType::float32) return std::bit_cast<float>(bits);
  return decode(type, bits);
}

std::string kind_of(const Tensor& tensor) {
  if (!tensor.present()) return "absent";
  return std::string(zerodiff::name_of(tensor.type())) + to_string(tensor.shape());
}

std::string coordinates(const Shape& shape, std::int64_t element) {
  std::int64_t inner = element_count(shape, "shape");
  std::ostringstream text;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    inner /= shape[axis];
    text << (axis == 0 ? "[" : ", ") << element / inner % shape[axis];
  }
  text << "]";
  return text.str();
}

std::string describe(const Tensor& tensor, std::size_t element) {
  std::ostringstream text;
  const std::uint32_t bits = bits_at(tensor, element);
  text << value_of(tensor.type(), bits) << " (0x" << std::hex << bits << ")";
  return text.str();
}

}  // namespace

std::string tensor_difference(const std::string& name, const Tensor& expected, const Tensor& got) {
  if (identical(expected, got)) return "";
  if (expected.present() != got.present() || expected.type() != got.type() ||
      expected.shape() != got.shape()) {
    return name + ": expected " + kind_of(expected) + ", got " + kind_of(got);
  }
  std::int64_t count = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(expected.size()); ++i) {
    const std::uint32_t a = bits_at(expected, i);
    const std::uint32_t b = bits_at(got, i);
    if (a == b) continue;
    const ElementType type = expected.type();
    if (std::isnan(value_of(type, a)) && std::isnan(value_of(type, b))) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return "";
  return name + coordinates(expected.shape(), static_cast<std::int64_t>(first)) + ": expected " +
         describe(expected, first) + ", got " + describe(got, first) + "; " +
         std::to_string(count) + " of " + std::to_string(expected.size()) + " elements differ";
}

std::string attention_difference(const Outputs& expected, const Outputs& got) {
  for (const OutputField& field : kOutputFields) {
    const bool before = field.tensor == &Outputs::q || field.tensor == &Outputs::index_q ||
                        field.tensor == &Outputs::k_cache || field.tensor == &Outputs::v_cache ||
                        field.tensor == &Outputs::kv_cache || field.tensor == &Outputs::index_cache;
    if (before) continue;
    std::string text =
        tensor_difference(std::string(field.name), expected.*field.tensor, got.*field.tensor);
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace zerodiff::oracle
