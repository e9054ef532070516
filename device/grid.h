// Sizes and positions in a launch: blocks of a grid, threads of a block.
#pragma once

#include <cstdint>
#include <string>

namespace zerodiff::device {

// A size; an axis that is not named has one element.
struct Extent3 {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;

  constexpr std::uint64_t volume() const { return std::uint64_t{x} * y * z; }
  friend constexpr bool operator==(const Extent3&, const Extent3&) = default;
};

// A position inside an Extent3, x fastest.
struct Index3 {
  std::uint32_t x = 0;
  std::uint32_t y = 0;
  std::uint32_t z = 0;

  friend constexpr bool operator==(const Index3&, const Index3&) = default;
};

constexpr Index3 unflatten(std::uint64_t linear, const Extent3& extent) {
  return {static_cast<std::uint32_t>(linear % extent.x),
          static_cast<std::uint32_t>(linear / extent.x % extent.y),
          static_cast<std::uint32_t>(linear / extent.x / extent.y)};
}

// "(1,2,3)"
inline std::string to_string(const Index3& index) {
  std::string text = "(";
  text += std::to_string(index.x) + ',' + std::to_string(index.y) + ',';
  return text + std::to_string(index.z) + ')';
}

}  // namespace zerodiff::device
