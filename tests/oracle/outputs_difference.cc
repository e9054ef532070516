#include "tests/oracle/outputs_difference.h"

#include <cmath>
#include <cstring>
#include <sstream>

#include "tests/oracle/attention_difference.h"
#include "tests/oracle/number_formats.h"

namespace zerodiff::oracle {
namespace {

std::uint32_t bits_at(const Tensor& tensor, std::size_t element) {
  if (element_size(tensor.type()) == 1) return tensor.as<std::uint8_t>()[element];
  return tensor.as<std::uint16_t>()[element];
}

bool is_copied_v(const LayerCall& call, std::string_view output, std::size_t element) {
  if (is_fp8(call.kv_cache_type())) return false;
  if (output == "v_cache") return true;
  if (output != "kv_cache") return false;
  const std::size_t half =
      static_cast<std::size_t>(8 * call.config.num_kv_heads) * std::size_t{16 * 128};
  return element / half % 2 == 1;
}

class OutputDifference {
 public:
  OutputDifference(const LayerCall& call, std::string_view name, const Tensor& expected,
                   const Tensor& got)
      : call_(call), name_(name), expected_(expected), got_(got) {}

  std::string text() const {
    if (identical(expected_, got_)) return "";
    if (expected_.present() != got_.present() || expected_.type() != got_.type() ||
        expected_.shape() != got_.shape()) {
      return describe_kind("expected", expected_) + "; " + describe_kind("got", got_);
    }
    const auto size = static_cast<std::size_t>(expected_.size());
    std::size_t count = 0;
    std::size_t first = size;
    for (std::size_t i = 0; i < size; ++i) {
      if (same(i)) continue;
      if (count == 0) first = i;
      ++count;
    }
    return count == 0 ? "" : describe_element(first, count);
  }

 private:
  bool same(std::size_t element) const {
    const std::uint32_t a = bits_at(expected_, element);
    const std::uint32_t b = bits_at(got_, element);
    if (a == b) return true;
    const bool both_nan =
        std::isnan(decode(expected_.type(), a)) && std::isnan(decode(got_.type(), b));
    return both_nan && !is_copied_v(call_, name_, element);
  }

  std::string describe_kind(std::string_view who, const Tensor& tensor) const {
    std::ostringstream text;
    text << name_ << " " << who << " ";
    if (!tensor.present()) {
      text << "absent";
    } else {
      text << zerodiff::name_of(tensor.type()) << to_string(tensor.shape());
    }
    return text.str();
  }

  std::string describe_element(std::size_t element, std::size_t count) const {
    std::ostringstream text;
    text << name_ << "[";
    auto rest = static_cast<std::int64_t>(element);
    std::int64_t extent = expected_.size();
    for (std::size_t axis = 0; axis < expected_.shape().size(); ++axis) {
      extent /= expected_.dim(axis);
      text << (axis == 0 ? "" : ", ") << rest / extent;
      rest %= extent;
    }
    const std::uint32_t a = bits_at(expected_, element);
    const std::uint32_t b = bits_at(got_, element);
    text << "] expected 0x" << std::hex << a << " (" << decode(expected_.type(), a) << ") got 0x"
         << b << " (" << decode(got_.type(), b) << "); " << std::dec << count << " of "
         << expected_.size() << " elements differ";
    return text.str();
  }

  const LayerCall& call_;
  std::string_view name_;
  const Tensor& expected_;
  const Tensor& got_;
};

}  // namespace

std::string first_difference(const LayerCall& call, const Outputs& expected, const Outputs& got) {
  for (const OutputField& field : kOutputFields) {
    const Tensor& tensor = expected.*field.tensor;
    const bool is_32_bit = tensor.present() && element_size(tensor.type()) == 4;
    std::string text = is_32_bit
                           ? tensor_difference(std::string(field.name), tensor, got.*field.tensor)
                           : OutputDifference(call, field.name, tensor, got.*field.tensor).text();
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace zerodiff::oracle
