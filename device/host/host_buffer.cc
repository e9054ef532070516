#include "device/host/host_buffer.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "device/host/access_stamp.h"

namespace zerodiff::device {
inline namespace host {
namespace {

const std::array<std::byte, HostBuffer::kGuardBytes>& guard() {
  static const auto bytes = [] {
    std::array<std::byte, HostBuffer::kGuardBytes> band{};
    band.fill(std::byte{0xD7});
    return band;
  }();
  return bytes;
}

// Looking through the stamps of a larger buffer costs more than the checks that it could save.
constexpr std::int64_t kMaxCounted = std::int64_t{1} << 24;

std::size_t size_of(const BufferDescription& description) {
  return static_cast<std::size_t>(description.size_bytes());
}

}  // namespace

HostBuffer::HostBuffer(const BufferDescription& description, bool checked)
    : description_(description),
      checked_(checked),
      memory_(size_of(description) + 2 * kGuardBytes, "buffer " + description.name) {
  const bool stamped = checked && description.role != BufferRole::input;
  const std::size_t words = stamped ? static_cast<std::size_t>(description.count) : 0;
  writers_ = MappedMemory(words * sizeof(Stamp), "stamps of buffer " + description.name);
  readers_ = MappedMemory(words * sizeof(Stamp), "stamps of buffer " + description.name);
  region_ = {.space = MemorySpace::buffer,
             .element_bytes = static_cast<std::uint32_t>(element_size(description.type)),
             .base = base(),
             .count = description.count,
             .writers = reinterpret_cast<std::uint64_t*>(writers_.data()),
             .readers = reinterpret_cast<std::uint64_t*>(readers_.data()),
             .name = description.name};
}

std::span<std::byte> HostBuffer::content() const {
  return {base(), size_of(description_)};
}

void HostBuffer::upload() {
  const InitialContent& initial = description_.initial;
  memory_.clear();
  fill_guards();
  if (initial.kind == InitialContent::Kind::bytes) {
    std::copy(initial.bytes.begin(), initial.bytes.end(), base());
  } else if (initial.fill != std::byte{0}) {
    std::ranges::fill(content(), initial.fill);
  }
  writers_.clear();
  readers_.clear();
  starts_unwritten_ = initial.kind == InitialContent::Kind::unwritten;
}

void HostBuffer::upload(std::span<const std::byte> content) {
  assert(content.size() == size_of(description_));
  std::copy(content.begin(), content.end(), base());
  starts_unwritten_ = false;
}

const MemoryRegion* HostBuffer::region(bool writable) {
  if (!checked_) return nullptr;
  region_.starts_unwritten = starts_unwritten_;
  region_.tracking = starts_unwritten_ ? Tracking::written : Tracking::none;
  if (writable) region_.tracking = Tracking::races;
  return &region_;
}

std::span<std::uint64_t> HostBuffer::writers() const {
  return {region_.writers, writers_.size() / sizeof(Stamp)};
}

void HostBuffer::note_written() {
  if (!starts_unwritten_ || description_.count > kMaxCounted) return;
  starts_unwritten_ = std::ranges::find(writers(), Stamp{0}) != writers().end();
}

void HostBuffer::forget_epochs() {
  for (Stamp& word : writers()) {
    // Only touched words are rewritten: a sparse buffer stays sparse.
    if (word != 0) word = make_stamp(kEarlierEpoch, 0, 0, 0);
  }
  readers_.clear();
}

void HostBuffer::fill_guards() const {
  std::memcpy(memory_.data(), guard().data(), kGuardBytes);
  std::memcpy(memory_.data() + memory_.size() - kGuardBytes, guard().data(), kGuardBytes);
}

std::optional<std::int64_t> HostBuffer::first_damage() const {
  for (const std::byte* band : {memory_.data(), memory_.data() + memory_.size() - kGuardBytes}) {
    if (std::memcmp(band, guard().data(), kGuardBytes) == 0) continue;
    return std::mismatch(band, band + kGuardBytes, guard().begin()).first - base();
  }
  return std::nullopt;
}

}  // namespace host
}  // namespace zerodiff::device
