#include "device/gpu/gpu_buffer.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "device/gpu/gpu_runtime.h"

namespace zerodiff::device {
inline namespace ZERODIFF_GPU_RUNTIME {
namespace {

constexpr std::byte kGuard{0xE7};

int byte_value(std::byte value) {
  return std::to_integer<int>(value);
}

}  // namespace

GpuBuffer::GpuBuffer(const BufferDescription& description)
    : description_(description),
      padded_bytes_((static_cast<std::size_t>(description.size_bytes()) + 255) / 256 * 256) {
  void* pointer = nullptr;
  ZERODIFF_GPU_CALL(Malloc, &pointer, padded_bytes_ + 2 * kGuardBytes);
  storage_ = static_cast<std::byte*>(pointer);
}

GpuBuffer::~GpuBuffer() {
  // Nothing to be done about a failure here; the next call reports a sticky one.
  static_cast<void>(ZERODIFF_GPU_NAME(Free)(storage_));
}

void GpuBuffer::upload() {
  // The padding behind the content is part of the guard band.
  ZERODIFF_GPU_CALL(Memset, storage_, byte_value(kGuard), kGuardBytes);
  const auto size = static_cast<std::size_t>(description_.size_bytes());
  ZERODIFF_GPU_CALL(Memset, data() + size, byte_value(kGuard), padded_bytes_ - size + kGuardBytes);
  if (description_.initial.kind == InitialContent::Kind::bytes) {
    upload(description_.initial.bytes);
  } else if (size != 0) {
    ZERODIFF_GPU_CALL(Memset, data(), byte_value(description_.initial.fill), size);
  }
}

void GpuBuffer::upload(std::span<const std::byte> content) {
  assert(content.size() == static_cast<std::size_t>(description_.size_bytes()));
  if (content.empty()) return;
  ZERODIFF_GPU_CALL(Memcpy, data(), content.data(), content.size(),
                    ZERODIFF_GPU_NAME(MemcpyHostToDevice));
}

void GpuBuffer::download(std::int64_t byte_offset, std::span<std::byte> content) const {
  if (content.empty()) return;
  ZERODIFF_GPU_CALL(Memcpy, content.data(), data() + byte_offset, content.size(),
                    ZERODIFF_GPU_NAME(MemcpyDeviceToHost));
}

std::optional<std::int64_t> GpuBuffer::first_damage() const {
  const std::int64_t size = description_.size_bytes();
  std::array<std::byte, kGuardBytes + 256> band;
  const std::span before = std::span(band).first(kGuardBytes);
  download(-static_cast<std::int64_t>(kGuardBytes), before);
  const auto unlike = [](std::byte value) { return value != kGuard; };
  if (const auto found = std::ranges::find_if(before, unlike); found != before.end()) {
    return found - before.begin() - static_cast<std::int64_t>(kGuardBytes);
  }
  const std::span behind =
      std::span(band).first(padded_bytes_ - static_cast<std::size_t>(size) + kGuardBytes);
  download(size, behind);
  if (const auto found = std::ranges::find_if(behind, unlike); found != behind.end()) {
    return size + (found - behind.begin());
  }
  return std::nullopt;
}

}  // namespace ZERODIFF_GPU_RUNTIME
}  // namespace zerodiff::device
