// One buffer of a launch list in host memory: content, guard bands and the stamps of its elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "device/host/mapped_memory.h"
#include "device/host/memory_region.h"
#include "device/launch_list.h"

namespace zerodiff::device {
inline namespace host {

class HostBuffer {
 public:
  static constexpr std::size_t kGuardBytes = 4096;

  // The description must outlive the buffer. Without `checked` there are no stamps.
  HostBuffer(const BufferDescription& description, bool checked);

  // Initial content, intact guard bands, no element stamped.
  void upload();
  // Another content; every element counts as written.
  void upload(std::span<const std::byte> content);

  std::byte* base() const { return memory_.data() + kGuardBytes; }
  std::span<std::byte> content() const;

  // The region that kernels see in a launch in which the buffer is, or is not, accessible to
  // writes. Null if unchecked. Valid until the next call.
  const MemoryRegion* region(bool writable);

  // After a launch that could write: stops looking for unwritten elements once there are none.
  void note_written();
  // Before epochs start anew (access_stamp.h).
  void forget_epochs();

  // The first byte of the guard bands that changed, relative to base(); none if all are intact.
  std::optional<std::int64_t> first_damage() const;

 private:
  std::span<std::uint64_t> writers() const;
  void fill_guards() const;

  const BufferDescription& description_;
  bool checked_;
  bool starts_unwritten_ = false;
  MappedMemory memory_;
  MappedMemory writers_;
  MappedMemory readers_;
  MemoryRegion region_;
};

}  // namespace host
}  // namespace zerodiff::device
