// The place in a kernel source that did something, as a default argument captures it.
#pragma once

#include <cstdint>

namespace zerodiff::device {
inline namespace host {

struct CallSite {
  const char* file = "";  // as the compiler was given it, relative to the source root
  std::uint32_t line = 0;

  // As `CallSite site = CallSite::here()`, the last parameter of a function: its caller's place.
  static constexpr CallSite here(const char* file = __builtin_FILE(),
                                 std::uint32_t line = __builtin_LINE()) {
    return {file, line};
  }

  // Compares the text: one header has one address of its name per translation unit.
  friend constexpr bool operator==(const CallSite& a, const CallSite& b) {
    return a.line == b.line && same_text(a.file, b.file);
  }

 private:
  static constexpr bool same_text(const char* a, const char* b) {
    if (a == b) return true;
    while (*a != '\0' && *a == *b) ++a, ++b;
    return *a == *b;
  }
};

}  // namespace host
}  // namespace zerodiff::device
