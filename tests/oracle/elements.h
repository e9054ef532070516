// Elements of tensors as the oracle reads them: bounds checked, 8- and 16-bit ones as numbers.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "fixtures/tensor.h"
#include "tests/oracle/number_formats.h"

namespace zerodiff::oracle {

// Throws std::out_of_range, so that a wrong address cannot pass as a wrong value.
template <class T>
T element_at(const Tensor& tensor, std::int64_t element) {
  if (element < 0 || element >= tensor.size()) throw std::out_of_range("oracle: past the tensor");
  return tensor.as<T>()[static_cast<std::size_t>(element)];
}

// decode() of every code of a format, made once: calling it for each element would take minutes.
inline const std::vector<float>& values_of_codes(ElementType format) {
  static std::map<ElementType, std::vector<float>> tables;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::vector<float>& values = tables[format];
  const std::uint32_t codes = element_size(format) == 1 ? 256 : 65536;
  for (auto code = static_cast<std::uint32_t>(values.size()); code < codes; ++code) {
    values.push_back(static_cast<float>(decode(format, code)));
  }
  return values;
}

// The values of a tensor of a model dtype or an fp8 format, which must outlive it.
class Values {
 public:
  explicit Values(const Tensor& tensor)
      : tensor_(tensor), value_of_code_(values_of_codes(tensor.type())) {}

  float at(std::int64_t element) const {
    const std::uint32_t code = element_size(tensor_.type()) == 1
                                   ? element_at<std::uint8_t>(tensor_, element)
                                   : element_at<std::uint16_t>(tensor_, element);
    return value_of_code_[code];
  }

 private:
  const Tensor& tensor_;
  const std::vector<float>& value_of_code_;
};

}  // namespace zerodiff::oracle
