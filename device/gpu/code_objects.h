// The code objects that the build has put into the program, one for each AMD architecture.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace zerodiff::device {

struct CodeObject {
  std::string_view architecture;  // "gfx90a"
  std::span<const std::byte> image;
};

// In the order of ZERODIFF_HIP_ARCHITECTURES. The definition is written by CMake
// (code_objects.cc.in).
std::span<const CodeObject> code_objects();

}  // namespace zerodiff::device
