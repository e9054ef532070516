// A buffer of a launch list in device memory, between guard bands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "device/gpu/gpu_namespace.h"
#include "device/launch_list.h"

namespace zerodiff::device {
inline namespace ZERODIFF_GPU_RUNTIME {

class GpuBuffer {
 public:
  static constexpr std::size_t kGuardBytes = 4096;

  // The description must outlive it. Throws Error (infrastructure) without memory.
  explicit GpuBuffer(const BufferDescription& description);
  ~GpuBuffer();
  GpuBuffer(const GpuBuffer&) = delete;
  GpuBuffer& operator=(const GpuBuffer&) = delete;

  std::byte* data() const { return storage_ + kGuardBytes; }  // a device address

  void upload();  // the initial content, and fresh guard bands
  void upload(std::span<const std::byte> content);
  void download(std::int64_t byte_offset, std::span<std::byte> content) const;

  // The first byte of the guard bands that has changed, relative to the buffer.
  std::optional<std::int64_t> first_damage() const;

 private:
  const BufferDescription& description_;
  std::size_t padded_bytes_;  // the content, rounded up so that the guard band behind is aligned
  std::byte* storage_ = nullptr;
};

}  // namespace ZERODIFF_GPU_RUNTIME
}  // namespace zerodiff::device
