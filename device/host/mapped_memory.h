// Anonymous memory that costs nothing until it is touched, and is 0 until then.
#pragma once

#include <cstddef>
#include <string>

namespace zerodiff::device {
inline namespace host {

class MappedMemory {
 public:
  MappedMemory() = default;
  // `bytes` may be 0, which maps nothing. Page-aligned; nothing is reserved, so sizes far beyond
  // the machine's memory work as long as little is touched. Throws Error (infrastructure, `what`)
  // if the address space is not to be had.
  MappedMemory(std::size_t bytes, const std::string& what);
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  MappedMemory(MappedMemory&& other) noexcept;
  MappedMemory& operator=(MappedMemory&& other) noexcept;
  ~MappedMemory();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

  // Makes everything 0 again, and untouched.
  void clear();

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace host
}  // namespace zerodiff::device
