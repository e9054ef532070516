// A kernel function of the host backend with what its signature says: one registry entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "device/host/host_launch.h"
#include "device/host/memory_region.h"
#include "device/host/view.h"
#include "fixtures/tensor.h"

namespace zerodiff::device {
inline namespace host {

// A buffer as a kernel gets it: a place inside a region. `base` is null for an absent buffer;
// `region` is null where accesses are not checked.
struct BoundBuffer {
  const MemoryRegion* region = nullptr;
  std::byte* base = nullptr;
  std::int64_t byte_offset = 0;
};
using BoundArgument = std::variant<BoundBuffer, std::int32_t, std::uint32_t, std::int64_t, float>;

// One parameter of a kernel.
struct Parameter {
  std::string_view type;                 // "View<const float>", "int64_t", ...
  std::size_t alternative = 0;           // of BoundArgument
  bool writable = false;                 // a View<T> of non-const T
  std::size_t element_bytes = 0;         // of a View
  bool (*holds)(ElementType) = nullptr;  // whether a View may show a buffer of this type
};

struct HostKernel {
  std::string name;
  unsigned max_threads = 0;
  std::vector<Parameter> parameters;
  // The arguments must fit the parameters: as many, and of the parameters' alternatives.
  std::unique_ptr<BoundKernel> (*bind)(std::span<const BoundArgument>) = nullptr;
};

template <class T>
constexpr std::string_view kTypeName{};
template <>
inline constexpr std::string_view kTypeName<std::int32_t> = "int32_t";
template <>
inline constexpr std::string_view kTypeName<std::uint32_t> = "uint32_t";
template <>
inline constexpr std::string_view kTypeName<std::int64_t> = "int64_t";
template <>
inline constexpr std::string_view kTypeName<float> = "float";
template <>
inline constexpr std::string_view kTypeName<View<std::uint8_t>> = "View<uint8_t>";
template <>
inline constexpr std::string_view kTypeName<View<std::uint16_t>> = "View<uint16_t>";
template <>
inline constexpr std::string_view kTypeName<View<std::int32_t>> = "View<int32_t>";
template <>
inline constexpr std::string_view kTypeName<View<std::int64_t>> = "View<int64_t>";
template <>
inline constexpr std::string_view kTypeName<View<float>> = "View<float>";
template <>
inline constexpr std::string_view kTypeName<View<const std::uint8_t>> = "View<const uint8_t>";
template <>
inline constexpr std::string_view kTypeName<View<const std::uint16_t>> = "View<const uint16_t>";
template <>
inline constexpr std::string_view kTypeName<View<const std::int32_t>> = "View<const int32_t>";
template <>
inline constexpr std::string_view kTypeName<View<const std::int64_t>> = "View<const int64_t>";
template <>
inline constexpr std::string_view kTypeName<View<const float>> = "View<const float>";

// How one parameter type takes its argument.
template <class T>
struct ParameterTraits {
  static_assert(!kTypeName<T>.empty(), "a kernel parameter is a View or a scalar of BoundArgument");
  static Parameter describe() {
    return {.type = kTypeName<T>, .alternative = BoundArgument(T{}).index()};
  }
  static T take(const BoundArgument& argument) { return std::get<T>(argument); }
};

template <class T>
struct ParameterTraits<View<T>> {
  using Element = std::remove_const_t<T>;
  static_assert(!kTypeName<View<T>>.empty(), "no buffer has elements of this type");

  static Parameter describe() {
    return {.type = kTypeName<View<T>>,
            .alternative = 0,
            .writable = !std::is_const_v<T>,
            .element_bytes = sizeof(T),
            .holds = &holds_bits_of<Element>};
  }
  static View<T> take(const BoundArgument& argument) {
    const auto& buffer = std::get<BoundBuffer>(argument);
    return {buffer.region, reinterpret_cast<Element*>(buffer.base),
            buffer.byte_offset / static_cast<std::int64_t>(sizeof(T))};
  }
};

template <auto kFunction, class... Parameters>
class BoundFunction final : public BoundKernel {
 public:
  explicit BoundFunction(std::span<const BoundArgument> arguments)
      : BoundFunction(arguments, std::index_sequence_for<Parameters...>{}) {}

  void run_work_item() const override { std::apply(kFunction, arguments_); }

 private:
  template <std::size_t... kIndex>
  BoundFunction(std::span<const BoundArgument> arguments, std::index_sequence<kIndex...>)
      : arguments_(ParameterTraits<Parameters>::take(arguments[kIndex])...) {}

  std::tuple<Parameters...> arguments_;
};

template <auto kFunction>
struct HostKernelMaker;

template <class... Parameters, void (*kFunction)(Parameters...)>
struct HostKernelMaker<kFunction> {
  static HostKernel make(std::string_view name, unsigned max_threads) {
    return {.name = std::string(name),
            .max_threads = max_threads,
            .parameters = {ParameterTraits<Parameters>::describe()...},
            .bind = [](std::span<const BoundArgument> arguments) -> std::unique_ptr<BoundKernel> {
              return std::make_unique<BoundFunction<kFunction, Parameters...>>(arguments);
            }};
  }
};

// The registry entry of a kernel defined by ZERODIFF_KERNEL or ZERODIFF_KERNEL_BOUNDS.
#define ZERODIFF_HOST_KERNEL(name) \
  ::zerodiff::device::host::HostKernelMaker<&name>::make(#name, name##_max_threads)

}  // namespace host
}  // namespace zerodiff::device
