#include "device/host/mapped_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "fixtures/error.h"

namespace zerodiff::device {
inline namespace host {
namespace {

// Above this, huge pages would turn scattered touches of a pool into gigabytes.
constexpr std::size_t kNoHugePagesFrom = std::size_t{64} << 20;

}  // namespace

MappedMemory::MappedMemory(std::size_t bytes, const std::string& what) : size_(bytes) {
  if (bytes == 0) return;
  void* place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) {
    throw Error::infrastructure(
        what, "no " + std::to_string(bytes) + " bytes of address space: " + std::strerror(errno));
  }
  data_ = static_cast<std::byte*>(place);
  if (bytes >= kNoHugePagesFrom) madvise(data_, size_, MADV_NOHUGEPAGE);
}

MappedMemory::MappedMemory(MappedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedMemory::~MappedMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

void MappedMemory::clear() {
  if (data_ == nullptr) return;
  // Private anonymous pages read as 0 after this.
  if (madvise(data_, size_, MADV_DONTNEED) != 0) std::memset(data_, 0, size_);
}

}  // namespace host
}  // namespace zerodiff::device
